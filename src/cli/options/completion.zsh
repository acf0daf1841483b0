#compdef gradsum
# zsh completion for gradsum: the commands and options that its help lists.

_gradsum() {
    local first=2 i tab=$'\t' line
    local -a lines described
    # The words after "launch ... --" or "help" are a command, too.
    for ((i = 2; i < CURRENT; i++)); do
        [[ $words[i] == -- || $i$first$words[i] == 22help ]] && first=$((i + 1))
    done
    if ((CURRENT == first)); then
        lines=("${(@f)$($words[1] help 2>/dev/null | sed -n "s/^  \([a-z]*\)   *\(.*\)/\1$tab$tab\2/p")}")
    else
        # Pass the words so far, because some of them change its options. Lines: name, tab, value, tab, description.
        lines=("${(@f)$($words[1] ${words[first,CURRENT-1]} --help 2>/dev/null |
            sed -n "s/^  \(-o, \)\{0,1\}\(-[-a-z0-9]*\) \{0,1\}\([^ ]*\) *\(.*\)/\2$tab\3$tab\4/p")}")
        # After an option that takes a value.
        for line in $lines; do
            if [[ ${line%%$tab*} == $words[CURRENT-1] && $line != *$tab$tab* ]]; then
                _files
                return
            fi
        done
    fi
    for line in $lines; do described+=("${${line%%$tab*}//:/\\:}:${line##*$tab}"); done
    if ((CURRENT == first)) || [[ $words[CURRENT] == -* ]]; then
        _describe gradsum described
    else
        _files
    fi
}

_gradsum "$@"
