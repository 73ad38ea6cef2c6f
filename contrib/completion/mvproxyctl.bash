# SPDX-License-Identifier: Apache-2.0
# Completion of mvproxyctl for bash.
_mvproxyctl() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i command=''
    local commands='check status peers skew explain requests refresh drain undrain reload loglevel config certs metrics support-bundle help'

    for ((i = 1; i < COMP_CWORD; i++)); do
        case " $commands " in *" ${COMP_WORDS[i]} "*) command=${COMP_WORDS[i]} ;; esac
    done
    COMPREPLY=()
    case $before in
    --socket | --config | support-bundle) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    -o) mapfile -t COMPREPLY < <(compgen -W json -- "$word") ;;
    explain) mapfile -t COMPREPLY < <(compgen -W 'GET HEAD POST PUT PATCH DELETE' -- "$word") ;;
    *)
        case $command in
        '') mapfile -t COMPREPLY < <(compgen -W "$commands --socket -o --help --version" -- "$word") ;;
        check) mapfile -t COMPREPLY < <(compgen -W '--pre --config' -- "$word") ;;
        skew) mapfile -t COMPREPLY < <(compgen -W '--all --upgrade --watch' -- "$word") ;;
        explain) mapfile -t COMPREPLY < <(compgen -W '--as --rerouted' -- "$word") ;;
        esac
        ;;
    esac
}
complete -F _mvproxyctl mvproxyctl
