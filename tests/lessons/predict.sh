#!/bin/sh
# predict.sh BUILD FOLDER [LESSON...]: every experiment of the boxes "Predict before you run" produces an outcome, and
# those with a known outcome produce that one. No command appears before the last box about it. FOLDER: for predictions.
set -u
build=$1 folder=$(realpath "$2")
shift 2
known="0a=47 0b=no 0c=yes 2a=401920 2c=4 3a=4 3b=higher 5a=18 5b=higher 6a=15 6b=3.75 7a=6 7b=1.25 7c=6"
known="$known 8a=yes 10a=1 10b=0.5 12a=yes 13a=3 13b=1"
known="$known 14a=10 14b=lower 15a=220 15c=yes"
known="$known 16a=1 16b=7 16c=2.5 16d=1.5 17a=1 17b=66.6 17c=0.99 17d=0.25"
known="$known 20a=84.7 20b=3996 21a=11.7 21b=1.9 21c=yes"
known="$known 18a=20 18c=2 19b=1"
wrong=0
export XDG_DATA_HOME=$folder # it must be an absolute path
known="$known 22a=2 22b=yes"
fail() { echo "predict: $1" >&2; wrong=1; }

if [ $# = 0 ]; then
    for file in lessons/[0-9][0-9]-*/predict.json; do
        lesson=${file#lessons/}
        set -- "$@" "${lesson%%-*}"
    done
    [ $# -ge 14 ] || fail "$# lessons have predictions"
fi
for lesson in "$@"; do
    ids=$(sed -n 's/.*"id": "\([^"]*\)".*/\1/p' lessons/"$lesson"-*/predict.json) answers=
    for id in $ids; do
        answer=
        for k in $known; do [ "${k%%=*}" = "$id" ] && answer=$k; done
        # A different answer: any number, or the first choice.
        [ -n "$answer" ] || answer=$id=$(sed -n "/\"id\": \"$id\"/,/\"as\"/s/.*\"choices\": \[\"\([^\"]*\)\".*/\1/p" \
            lessons/"$lesson"-*/predict.json)
        case $answer in *=) answer=${answer}1 ;; esac
        answers=$answers${answers:+,}$answer
    done
    "$build/gradsum" lesson "$lesson" --answer "$answers" >"$folder/$lesson.log" 2>&1 ||
        { tail -5 "$folder/$lesson.log"; fail "lesson $lesson --answer $answers"; }
    # Whether each command is shown after the questions of all boxes that contain it.
    awk 'FNR == 1 { file++ }
         file == 1 && match($0, /"id": "[^"]*"/) { id = substr($0, RSTART + 7, RLENGTH - 8) }
         file == 1 && match($0, /\{"command": "[^"]*"/) { has[id SUBSEP substr($0, RSTART + 13, RLENGTH - 14)] }
         file == 2 && $1 == "$" && !(substr($0, 3) in shown) { shown[substr($0, 3)] = FNR }
         file == 2 && /^[0-9]+[a-z] / && !($1 in asked) { asked[$1] = FNR }
         END { for (pair in has) {
                   split(pair, of, SUBSEP)
                   if (!(of[1] in asked && of[2] in shown && asked[of[1]] < shown[of[2]]))
                       print of[1] " is asked after: " of[2]
                   pairs++
               }
               if (!pairs) print "no box has a command" }' lessons/"$lesson"-*/predict.json "$folder/$lesson.log" \
                   >"$folder/$lesson.order"
    [ ! -s "$folder/$lesson.order" ] ||
        { cat "$folder/$lesson.order"; fail "lesson $lesson: a box asks about a command that was shown before"; }
    # shellcheck disable=SC2086
    count=$(echo $ids | wc -w)
    "$build/gradsum" lesson | grep -q "^ *${lesson#0}  $count of $count predicted " ||
        fail "gradsum lesson: wanted $count predictions of lesson $lesson"
    line=$("$build/gradsum" lesson "$lesson" --export)
    for id in $ids; do
        one=$(echo "$line" | sed 's/{"id"/\n&/g' | grep "^{\"id\":\"$id\"")
        case $one in
        *'"right":true'*) ;;
        *'"right":false'*)
            case " $known" in *" $id="*) fail "lesson $lesson: not the known outcome: $one" ;; esac ;;
        *) fail "lesson $lesson: no outcome of $id" ;;
        esac
    done
done
[ $wrong = 0 ] && echo "predict: the experiments of $# lessons give their outcomes"
exit $wrong
