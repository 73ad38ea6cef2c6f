# SPDX-License-Identifier: Apache-2.0
# Completion of mvproxyctl for bash.
_mvproxyctl() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i last command='' words=''
    local -a socket=()
    local commands='check status peers skew explain requests refresh drain undrain reload loglevel config certs metrics version support-bundle help'

    # bash takes --socket=PATH apart, into three words.
    [ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD - 2]}
    [ "$word" != = ] || word=''
    for ((i = 1; i < COMP_CWORD; i++)); do
        last=${COMP_WORDS[i - 1]}
        [ "$last" != = ] || last=${COMP_WORDS[i - 2]}
        [ "$last" != --socket ] || socket=(--socket "${COMP_WORDS[i]}")
        case $last in --socket | -o | --output | --config | --as) continue ;; esac
        case " $commands " in *" ${COMP_WORDS[i]} "*) command=${command:-${COMP_WORDS[i]}} ;; esac
    done
    COMPREPLY=()
    case $before in
    --socket | --config)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    -o | --output) words=json ;;
    --as) ;;
    *)
        words='--socket -o --output --help -h'
        case $command in
        '') words+=" --version $commands" ;;
        help) words=$commands ;;
        check) words+=' --pre --config' ;;
        skew) words+=' --all --upgrade --watch' ;;
        explain) words+=' --as --rerouted' ;;
        esac
        # What is no option: a method, a file.
        case $before/$word in
        */-*) ;;
        # The first row is this server, who is no peer.
        drain/* | undrain/*) words=$(mvproxyctl "${socket[@]}" peers 2>/dev/null | awk 'NR > 2 { print $1 }') ;;
        refresh/*) words=$(mvproxyctl "${socket[@]}" peers 2>/dev/null | awk 'NR > 1 { print $1 }') ;;
        explain/*) words='GET HEAD POST PUT PATCH DELETE' ;;
        support-bundle/*)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
            ;;
        esac
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _mvproxyctl mvproxyctl
