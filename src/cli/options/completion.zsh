#compdef gradsum
# Completion of gradsum for zsh. The words are asked of the program itself, so that they are those of its options.

_gradsum() {
    local first=2 i tab=$'\t' line
    local -a lines described
    # What follows "launch ... --", or "help", is a command of its own.
    for ((i = 2; i < CURRENT; i++)); do
        [[ $words[i] == -- || $i$first$words[i] == 22help ]] && first=$((i + 1))
    done
    if ((CURRENT == first)); then
        lines=("${(@f)$($words[1] help --words 2>/dev/null)}")
        ((first == 2)) && lines+=("help$tab${tab}the help of a command")
    else
        lines=("${(@f)$($words[1] help --words $words[first] 2>/dev/null)}")
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
