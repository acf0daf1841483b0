#!/bin/sh
# manual.sh PROGRAM FOLDER: writes man pages for the program and for each command, from the text of their --help.
set -eu
program=$1 folder=$2
date=$(sed -n 's/.*GRADSUM_DATE "\(.*\)".*/\1/p' "$(dirname "$0")/../../core/version.h")
escaped() { sed 's/\\/\\e/g; s/-/\\-/g; s/^[.'"'"']/\\\&&/'; } # a dot at the start of a line would be a request
commands=$("$program" help | sed -n 's/^  \([a-z]*\)   *\(.*\)/\1 \2/p' | grep -v '^help ')

page() { # NAME WHAT SEE-ALSO HELP...
    name=$1 what=$2 also=$3
    shift 3
    {
        echo ".TH $(echo "$name" | tr '[:lower:]' '[:upper:]' | escaped) 1 $date \"$("$program" --version)\" gradsum"
        printf '.SH NAME\n%s\n.SH DESCRIPTION\n.nf\n' "$(echo "$name - $what" | escaped)"
        "$program" "$@" | escaped
        printf '.fi\n.SH SEE ALSO\n'
        for other in $also; do echo ".BR $(echo "$other" | escaped) (1)"; done
    } >"$folder/$name.1"
}

mkdir -p "$folder"
page gradsum "learn data-parallel training by running it" "$(echo "$commands" | sed 's/ .*//; s/^/gradsum-/')" help
echo "$commands" | while read -r command what; do page "gradsum-$command" "$what" gradsum "$command" --help; done
