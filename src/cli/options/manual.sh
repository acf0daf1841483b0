#!/bin/sh
# manual.sh PROGRAM FOLDER: writes man pages for the program and for each command, from the text of their --help-all.
set -eu
program=$1 folder=$2
date=$(sed -n 's/.*GRADSUM_DATE "\(.*\)".*/\1/p' "$(dirname "$0")/../../core/version.h")
escaped() { sed 's/\\/\\e/g; s/-/\\-/g; s/^[.'"'"']/\\\&&/'; } # a dot at the start of a line would be a request
list=$("$program" help)
version=$("$program" --version)
commands=$(echo "$list" | sed -n 's/^  \([a-z]*\)   *\(.*\)/\1 \2/p' | grep -v '^help ')
statuses="0: done; 1: failed; 2: wrong usage; 128 and more: ended by a signal."

page() { # NAME WHAT SEE-ALSO HELP...
    name=$1 what=$2 also=$3
    shift 3
    help=$("$program" "$@") # not in a pipe, which would hide its failure
    {
        echo ".TH $(echo "$name" | tr '[:lower:]' '[:upper:]' | escaped) 1 $date \"$version\" gradsum"
        printf '.SH NAME\n%s\n.SH DESCRIPTION\n.nf\n' "$(echo "$name - $what" | escaped)"
        printf '%s\n' "$help" | escaped
        echo .fi
        [ "$name" != gradsum ] || printf '%s\n' ".SH EXIT STATUS" "$statuses"
        echo .SH SEE ALSO
        for other in $also; do echo ".BR $(echo "$other" | escaped) (1)"; done
    } >"$folder/$name.1"
}

mkdir -p "$folder"
page gradsum "learn data-parallel training by running it" "$(echo "$commands" | sed 's/ .*//; s/^/gradsum-/')" help
echo "$commands" | while read -r command what; do page "gradsum-$command" "$what" gradsum "$command" --help-all; done
