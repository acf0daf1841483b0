#!/usr/bin/env bash
# readme.sh: the README files keep their promises.
#
#   - every link leads to a file, and to a heading in it if it names one
#   - every path in backquotes, such as `src/train/step.c`, exists: in this folder, in the file's folder, or in src
#   - the files of the reading order in README.md total at most 3,500 lines; their number and lines are as it says. Of a
#     file "which you may leave at the heading *X*", the lines before that heading count.
set -u
most=3500 wrong=0
say() { echo "readme: $1"; wrong=1; }

# Anchors as GitHub makes them: lower case, words joined by hyphens, only letters, digits, - and _
headings() { sed -n 's/^##* //p' "$1" | tr 'A-Z ' 'a-z-' | sed 's/[^a-z0-9_-]//g'; }

for file in $(find . -name '*.md' -not -path './build/*' | sed 's|^\./||' | sort); do
    folder=$(dirname "$file")
    # shellcheck disable=SC2013
    for link in $(grep -o ']([^) ]*' "$file" | sed 's/^](//'); do
        case $link in http*) continue ;; esac
        path=${link%%#*} to=$file
        [ -z "$path" ] || to=$folder/$path
        [ -e "$to" ] || { say "$file: $link does not exist"; continue; }
        [[ $link != *'#'* ]] || headings "$to" | grep -qx -- "${link#*#}" || say "$file: no heading for $link"
    done
    [ "$file" != .github/CHANGELOG.md ] || continue # it mentions files that no longer exist
    for path in $(grep -o '`[a-z][A-Za-z0-9_/.-]*/[A-Za-z0-9_.-]*\.\(c\|h\|cc\|cl\|clh\|sh\|py\)`' "$file" |
        tr -d '`'); do
        [ -e "$path" ] || [ -e "$folder/$path" ] || [ -e "src/$path" ] || say "$file: $path does not exist"
    done
done

order=$(sed -n '/^## Reading order/,/^Then:/p' README.md)
files=$(sed -n '/^1[.]/,/^$/p' <<<"$order" | grep -o '`[^` ]*/[^` ]*`' | tr -d '`' | sort -u)
leave='`\([^`]*\)`, which you may leave at the heading \*\([a-z]*\)\*.*'
read -r long heading < <(tr '\n' ' ' <<<"$order" | tr -s ' ' | sed "s|.*$leave|\1 \2|")
rest=$(sed -n "/^\/\* ---- $heading ---- /,\$p" "$long" | wc -l)
[ "$rest" -gt 0 ] || say "$long has no heading $heading"
lines=$(($(xargs cat <<<"$files" | wc -l) - rest))
said=$(grep -o 'about [0-9,]* lines' <<<"$order" | tr -dc 0-9)
[ "$lines" -le $most ] || say "the reading order has $lines lines; wanted at most $most"
grep -q " $(wc -l <<<"$files") files, about" <<<"$order" || say "the reading order has $(wc -l <<<"$files") files"
[ -n "$said" ] && [ $((lines - said)) -le 100 ] && [ $((said - lines)) -le 100 ] ||
    say "the reading order has $lines lines; README.md says ${said:-nothing}"
exit $wrong
