# bash completion for gradsum: the commands and options that its help lists, and the names that options take.

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
    local word=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]} last=${COMP_WORDS[COMP_CWORD - 1]} first=1 i options
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
        "$program" "${COMP_WORDS[@]:first:COMP_CWORD-first}" --help-all
        [[ ${COMP_WORDS[first]} == step ]] && "$program" step --zero 1 --help-all
    } 2>/dev/null | sed -n 's/^  \(-o, \)\{0,1\}\(-[-a-z0-9]* \{0,1\}[^ ]*\).*/\2/p' | awk '!seen[$1]++')
    # After an option that takes a name, its names; after other values, file names, which bash itself completes best.
    case $(sed -n "s/^$last //p" <<<"$options") in
        *LIST | NAME* | TYPE | RULE | WHAT)
            case $last in
                --layout) options="dp2 tp2 pp2 dp2,zero1 dp2,zero2 dp2,zero3 dp2,tp2 dp2,pp2 tp2,pp2" ;;
                *) options=$(_gradsum_names "$program" "${COMP_WORDS[first]}" "$last") ;;
            esac
            COMPREPLY=($(compgen -W "$options" -- "$word"))
            return
            ;;
        ?*) return ;;
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(sed 's/ .*//' <<<"$options")" -- "$word"))
    fi
}

complete -o default -F _gradsum gradsum
