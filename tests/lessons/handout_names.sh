#!/bin/sh
# handout_names.sh HANDOUT LESSON...: this handout contains every file that the texts of these lessons name. Texts are
# README.md, and the comments of tasks.h, given.c and lab.c (or .cl). A name may be a path from the top, from src, from
# lessons or from the lesson's folder; a name without a folder may also be in a folder that the paragraph names.
#
# A paragraph with "open source" may name files that a sealed handout lacks, and so may one in which lessons/handout.sh
# has put "not in this copy" after a name. A student saves the box in PyTorch as box.py.
set -u
cd "$1" || exit 1
shift
wrong=0
for lesson in "$@"; do
    for file in lessons/"$lesson"-*/README.md lessons/"$lesson"-*/tasks.h lessons/"$lesson"-*/given.c \
        lessons/"$lesson"-*/lab.c lessons/"$lesson"-*/lab.cl; do
        [ -f "$file" ] || continue
        # "file line name folders": once for each name, with all folders of its paragraph
        awk -v file="$file" '
            function end_of_paragraph(   i) {
                if (text !~ /open source|not in this copy/)
                    for (i = 1; i <= names; i++) print line[i], name[i], folders
                names = 0; folders = text = ""
            }
            /^[ \/*>]*$/ { end_of_paragraph() }
            { text = text " " $0 }
            file ~ /\.md$/ || /\/\*|^ \*/ {
                rest = $0
                while (match(rest, /[A-Za-z0-9_][A-Za-z0-9_.\/-]*\.(c|h|cl|clh|cc|sh|py|md|mk|txt)([^A-Za-z0-9_]|$)/)) {
                    found = substr(rest, RSTART, RLENGTH)
                    sub(/[^A-Za-z0-9_]$/, "", found)
                    rest = substr(rest, RSTART + length(found))
                    line[++names] = FNR; name[names] = found
                    if (sub(/\/[^\/]*$/, "", found)) folders = folders " " found
                }
            }
            END { end_of_paragraph() }' "$file" >"${TMPDIR:-/tmp}/names.$$"
        while read -r line name folders; do
            [ "$name" != box.py ] || continue
            found=
            for folder in . src lessons "$(dirname "$file")" $folders; do
                [ -e "$folder/$name" ] && found=yes
            done
            [ -n "$found" ] || { echo "$file:$line: $name is not in the handout"; wrong=1; }
        done <"${TMPDIR:-/tmp}/names.$$"
        rm -f "${TMPDIR:-/tmp}/names.$$"
    done
done
exit $wrong
