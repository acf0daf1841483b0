# Completion of gradsum for bash. The words are asked of the program itself, so that they are those of its options.

_gradsum() {
    local word=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]} first=1 i words takes
    # What follows "launch ... --", or "help", is a command of its own.
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- || $i$first${COMP_WORDS[i]} == 11help ]] && first=$((i + 1))
    done
    if ((COMP_CWORD == first)); then
        words=$("$program" help --words 2>/dev/null | cut -f1)
        ((first == 1)) && words+=" help"
        COMPREPLY=($(compgen -W "$words" -- "$word"))
        return
    fi
    takes=$("$program" help --words "${COMP_WORDS[first]}" 2>/dev/null)
    # After an option that takes a value: a file, for which bash does it best.
    if awk -F'\t' -v o="${COMP_WORDS[COMP_CWORD - 1]}" '$1 == o && $2 != "" { found = 1 } END { exit !found }' <<<"$takes"; then
        return
    fi
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(cut -f1 <<<"$takes")" -- "$word"))
    fi
}

complete -o default -F _gradsum gradsum
