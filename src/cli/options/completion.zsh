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
        # Pass the words so far, because some of them change a command's options; step also has the options of its
        # other form. Lines: name, tab, value, tab, description, which may continue on the next lines of the help.
        lines=("${(@f)$({
            $words[1] ${words[first,CURRENT-1]} --help
            [[ $words[first] == step ]] && $words[1] step --zero 1 --help
        } 2>/dev/null | sed 's/^  -o, /  /' | awk '
            function put() { if (name != "" && !seen[name]++) print name "\t" value "\t" what; name = "" }
            /^  -/ {
                put()
                name = $1
                what = substr($0, 3 + length(name))
                value = what ~ /^ [^ ]/ ? $2 : ""
                sub(/^ [^ ]*/, "", what)
                sub(/^ */, "", what)
                next
            }
            /^                         [^ ]/ { sub(/^ */, ""); what = what (what == "" ? "" : " ") $0; next }
            { put() }
            END { put() }')}")
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
