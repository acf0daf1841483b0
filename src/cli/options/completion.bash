# bash completion for gradsum: the commands and options that its help lists.

_gradsum() {
    local word=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]} first=1 i options
    # The words after "launch ... --" or "help" are a command, too.
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- || $i$first${COMP_WORDS[i]} == 11help ]] && first=$((i + 1))
    done
    if ((COMP_CWORD == first)); then
        COMPREPLY=($(compgen -W "$("$program" help 2>/dev/null | sed -n 's/^  \([a-z]*\)  .*/\1/p')" -- "$word"))
        return
    fi
    # Pass the words so far, because some of them change a command's options; step also has the options of its other
    # form. Each line: "--name VALUE" or "--name".
    options=$({
        "$program" "${COMP_WORDS[@]:first:COMP_CWORD-first}" --help
        [[ ${COMP_WORDS[first]} == step ]] && "$program" step --zero 1 --help
    } 2>/dev/null | sed -n 's/^  \(-o, \)\{0,1\}\(-[-a-z0-9]* \{0,1\}[^ ]*\).*/\2/p' | awk '!seen[$1]++')
    # After an option that takes a value, complete file names, which bash itself does best.
    if grep -q -e "^${COMP_WORDS[COMP_CWORD - 1]} [^ ]" <<<"$options"; then
        return
    fi
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(sed 's/ .*//' <<<"$options")" -- "$word"))
    fi
}

complete -o default -F _gradsum gradsum
