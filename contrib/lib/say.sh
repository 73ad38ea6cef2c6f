# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# How the scripts in contrib/ talk to whoever runs them: headings, and steps that show how long they take.
# To be sourced. Needs nothing.

# Colours only where somebody sees them.
if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then
    say_bold=$'\033[1m' say_off=$'\033[0m' say_tty=1
else
    say_bold='' say_off='' say_tty=''
fi

# say TEXT...: one line of ordinary text.
say() { printf '%s\n' "$*"; }

# say_heading TEXT...: starts a new part.
say_heading() { printf '\n%s== %s%s\n' "$say_bold" "$*" "$say_off"; }

# die TEXT...: says why and ends the script.
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# elapsed SECONDS: "7 s", "3 min 05 s".
elapsed() {
    if [ "$1" -lt 60 ]; then
        printf '%d s' "$1"
    else
        printf '%d min %02d s' $(($1 / 60)) $(($1 % 60))
    fi
}

# A step that is at work when the script ends is ended with it, with all its children: they form a process group.
# A script with an EXIT trap of its own calls step_cleanup there.
step_child=''
step_cleanup() {
    [ -z "$step_child" ] || kill -TERM -- "-$step_child" 2>/dev/null
    step_child=''
}
trap step_cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# step LOGFILE TEXT COMMAND [ARG...]: runs a long command with its output in LOGFILE (appended), shows that it is still
# at work, and how long it took. A command that fails has the end of its output shown; its exit status is returned.
step() {
    local log=$1 text=$2 start=$SECONDS last=0 now status=0 pid
    shift 2
    printf '\n$ %s\n' "$*" >>"$log"
    set -m
    "$@" >>"$log" 2>&1 </dev/null &
    set +m
    pid=$!
    step_child=$pid
    if [ -n "$say_tty" ]; then
        while kill -0 "$pid" 2>/dev/null; do
            printf '\r   %s ... %s' "$text" "$(elapsed $((SECONDS - start)))"
            sleep 1
        done
    else
        printf '   %s ...\n' "$text"
        while kill -0 "$pid" 2>/dev/null; do
            now=$((SECONDS - start))
            if [ $((now - last)) -ge 60 ]; then
                printf '   %s ... still at work after %s\n' "$text" "$(elapsed "$now")"
                last=$now
            fi
            sleep 0.2
        done
    fi
    wait "$pid" || status=$?
    step_child=''
    if [ "$status" = 0 ]; then
        [ -z "$say_tty" ] || printf '\r\033[K'
        printf '   %s: done, %s\n' "$text" "$(elapsed $((SECONDS - start)))"
        return 0
    fi
    [ -z "$say_tty" ] || printf '\r\033[K'
    printf '   %s: FAILED after %s (exit status %d). The end of %s:\n' \
        "$text" "$(elapsed $((SECONDS - start)))" "$status" "$log" >&2
    tail -n 40 "$log" | sed 's/^/   | /' >&2
    return "$status"
}
