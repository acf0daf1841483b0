#!/usr/bin/env bash
# pages.sh FOLDER...: each lesson has a page with all its pictures, one at least, and those that move have a frame; each
# link and each picture of a folder's pages leads to a file in it, and to an anchor in that file if it names one;
# nothing is loaded from a network; and the folder contains no solutions, answers or marks.
set -u
wrong=0
say() { echo "pages: $1"; wrong=1; }

for folder in "$@"; do
    work=$(mktemp)
    find "$folder" -name '*.html' | sort | while read -r page; do
        # page, TAB, the target
        grep -o ' \(href\|src\)="[^"]*"' "$page" | sed 's/^[^"]*"//; s/"$//' | sort -u | sed "s|^|$page	|"
    done >"$work"
    [ "$(cut -f1 "$work" | sort -u | wc -l)" -ge 13 ] || say "$folder: fewer than 13 pages with links"
    while IFS=$'\t' read -r page link; do
        to=$(dirname "$page")/${link%%#*} anchor=
        case $link in
        http://* | https://* | data:*) continue ;;
        '#'*) to=$page ;;
        esac
        [[ $link != *'#'* ]] || anchor=${link#*#}
        [ -f "$to" ] || { say "$page: $link does not exist"; continue; }
        [[ $(realpath "$to") = $(realpath "$folder")/* ]] || say "$page: $link leads out of $folder"
        [ -z "$anchor" ] || grep -q " id=\"$anchor\"" "$to" || say "$page: no anchor for $link"
    done <"$work"
    rm -f "$work"
    for lesson in lessons/[0-9][0-9]-*; do
        page=$folder/$(basename "$lesson").html
        [ "$(grep -o '!\[[^]]*](' "$lesson/README.md" | wc -l)" = "$(grep -o '<img ' "$page" | wc -l)" ] ||
            say "$page lacks pictures of $lesson/README.md"
        grep -q '<img ' "$page" || say "$lesson/README.md has no picture"
        [ "$(grep -c "\(^\|svg \)[\"']gradsum " "$lesson/README.md")" = "$(grep -o '<iframe ' "$page" | wc -l)" ] ||
            say "$page: a moving picture of $lesson/README.md has no frame"
    done
    made=$(find "$folder/files/build" -type f 2>/dev/null | head -1)
    [ -z "$made" ] || say "$made is not a source"
    given=$(find "$folder" -name 'solution.*' -o -name 'answers.md*' -o -name 'rubric.md*')
    [ -z "$given" ] || say "only for the teacher: $given"
    loaded=$(grep -rlE '(src|srcset)="(https?:)?//|<link[^>]*href="(https?:)?//|url\((https?:)?//|@import' "$folder")
    [ -z "$loaded" ] || say "loaded from a network: $loaded"
done
[ $wrong = 0 ] && echo "pages: all links lead to a page"
exit $wrong
