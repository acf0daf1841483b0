#compdef gradsum
# zsh completion for gradsum: the commands and options that its help lists, and the names that options take.

# _gradsum_names PROGRAM COMMAND OPTION: the names, from the error about a wrong one; from train's, if the command first
# needs something else.
_gradsum_names() {
    { "$@" '?' || "$1" train "$3" '?'; } 2>&1 | tr '\n' ' ' | sed -n '
        s/.*choose one of: \([^;]*\).*/\1/p
        s/.*expected a model (\([^)]*\)).*/\1/p
        s/.*; wanted \(fashion.*\), text:FILE.*/\1/p
        s/.*: wanted \(cpu, cl\), .*/\1/p' | tr -d ,
}

_gradsum() {
    local first=2 i tab=$'\t' line value
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
            $words[1] ${words[first,CURRENT-1]} --help-all
            [[ $words[first] == step ]] && $words[1] step --zero 1 --help-all
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
        # After an option that takes a value: its names, or files.
        for line in $lines; do
            [[ ${line%%$tab*} == $words[CURRENT-1] && $line != *$tab$tab* ]] || continue
            value=${${line#*$tab}%%$tab*}
            if [[ $words[CURRENT-1] == --layout ]]; then
                described=(dp2 tp2 pp2 dp2,zero{1,2,3} dp2,tp2 dp2,pp2 tp2,pp2)
            elif [[ $value == *LIST || $value == NAME* || $value == (TYPE|RULE|WHAT) ]]; then
                described=(${=$(_gradsum_names $words[1] $words[first] $words[CURRENT-1])})
            else
                _files
                return
            fi
            _describe gradsum described
            return
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
