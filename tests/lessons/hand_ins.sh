#!/bin/sh
# hand_ins.sh BUILD WORK: gradsum grade on folders of hand-ins, good ones and all kinds of bad ones: each bad one gets a
# message and 0 points, and the points of the others do not change. Each format is read back by a program that knows it.
# Part of tests/lessons/labs.sh.
set -u
build=$1 work=$2
solution=lessons/07-all-reduce/solution.c
failures=0
for tool in xmllint jq; do
    command -v $tool >/dev/null || { echo "hand_ins.sh: needs $tool (Debian: libxml2-utils, jq)" >&2; exit 1; }
done

fail() {
    echo "  FAILED: $1" >&2
    failures=$((failures + 1))
}

# hand_in STUDENT FILE TEXT
hand_in() {
    mkdir -p "$(dirname "$work/$1/$2")"
    printf '%s' "$3" >"$work/$1/$2"
}

none='7.1=0 7.2=0 7.3=0 7.4=0 7.5=0'

check_all_kinds() {
    hand_in all/-rf lab-07.c 'int main'
    hand_in all/=cmd lab-07.c 'int main'
    hand_in all/Alice lab-07.c 'int main'
    mkdir -p "$work/all/alice/07" && cp $solution "$work/all/alice/07/lab.c"
    hand_in all/bob notes.txt 'my dog ate it'
    mkdir -p "$work/all/carol/07" && ln -s ../../alice/07/lab.c "$work/all/carol/07/lab.c"
    mkdir -p "$work/all/dave/07" && ln -s ../alice "$work/all/eve" && mkfifo "$work/all/dave/07/lab.c"
    # Making a device needs a permission; without it a pipe takes its place.
    mkdir -p "$work/all/frank" &&
        { mknod "$work/all/frank/lab-07.c" c 1 3 2>/dev/null || mkfifo "$work/all/frank/lab-07.c"; }
    mkdir -p "$work/all/gina" && truncate -s 100M "$work/all/gina/lab-07.c"
    hand_in all/hugo lab-07.c 'int main'
    hand_in all/hugo 07/lab.c 'int main'
    hand_in all/ida lab-98.c 'int main'
    deep=all/jan/07 &&
        for i in 1 2 3 4 5 6 7 8 9; do deep=$deep/a-folder-with-a-name-of-some-length-and-a-number-$i; done
    hand_in "$deep" lab.c 'int main'
    long=$(printf 'k%.0s' $(seq 255))
    hand_in "all/$long" lab-07.c 'int main'
    mkdir -p "$work/all/lisa/lessons/07-all-reduce" && cp $solution "$work/all/lisa/lessons/07-all-reduce/lab.c"
    mkfifo "$work/all/list of the course"
    cat >"$work/wanted.csv" <<END
student,lab,tasks,points,of,note
'-rf,07,$none,0,10,it does not compile
'=cmd,07,$none,0,10,it does not compile
Alice,07,$none,0,10,it does not compile
alice,07,7.1=3 7.2=2 7.3=2 7.4=2 7.5=1,10,10,
bob,07,$none,0,10,nothing handed in: wanted 07/lab.c or lab-07.c; found notes.txt
carol,07,$none,0,10,"07/lab.c is a link, not a file"
dave,07,$none,0,10,07/lab.c is not a file
eve,07,$none,0,10,"the folder is a link, not a folder"
frank,07,$none,0,10,lab-07.c is not a file
gina,07,$none,0,10,it has 104857600 bytes; a lab has at most 1048576
hugo,07,$none,0,10,"handed in more than once, the last time as lab-07.c: hand in one file"
ida,07,$none,0,10,nothing handed in: wanted 07/lab.c or lab-07.c
ida,98,,0,0,unknown lab 98
jan,07,$none,0,10,no lab.c in the folder 07
$long,07,$none,0,10,it does not compile
lisa,07,7.1=3 7.2=2 7.3=2 7.4=2 7.5=1,10,10,
END
    "$build/gradsum" grade "$work/all" -o "$work/points.csv" 2>"$work/log" || { cat "$work/log"; fail "gradsum grade"; }
    grep -q "^Alice,07,.*it does not compile: .*error" "$work/points.csv" ||
        fail "gradsum grade: the compiler's messages"
    compiler_left_out <"$work/points.csv" | diff "$work/wanted.csv" - ||
        fail "gradsum grade: wrong table"
}

# A terminal shows whose lab is being graded.
check_shown() {
    COLUMNS=80 script -qec "$build/gradsum grade $work/all --labs 07" /dev/null </dev/null |
        grep -q "] hand-in [0-9]* of [0-9]*: lab 07 of Alice" || fail "gradsum grade: a terminal does not show it"
}

# Keeps the start of a note "it does not compile: ...".
compiler_left_out() {
    sed 's/"*\(it does not compile\): .*/\1/'
}

# As Canvas exports hand-ins, all in one folder: of two attempts the newest counts, whatever its line ends.
check_exported() {
    hand_in flat doeJane_4711_9987_lab-07.c 'int main'
    { printf '\357\273\277' && sed 's/$/\r/' $solution; } >"$work/flat/doeJane_LATE_4711_9988_lab-07-1.c"
    hand_in flat roeRick_4712_9989_mine.c 'int main'
    cat >"$work/wanted.csv" <<END
student,lab,tasks,points,of,note
doeJane,07,7.1=3 7.2=2 7.3=2 7.4=2 7.5=1,10,10,
roeRick,07,$none,0,10,nothing handed in: wanted 07/lab.c or lab-07.c; found roeRick_4712_9989_mine.c
END
    "$build/gradsum" grade "$work/flat" 2>"$work/log" | diff "$work/wanted.csv" - ||
        fail "gradsum grade: Canvas's files"
    mkdir -p "$work/kernels/kim/submission" &&
        cp lessons/04-a-kernel/solution.cl "$work/kernels/kim/submission/LAB-04.CL"
    "$build/gradsum" grade "$work/kernels" 2>"$work/log" | grep -q '^kim,04,.*,10,10,$' ||
        fail "gradsum grade: an inner folder in capitals"
}

# Students without a hand-in are included, with 0 of the possible points.
check_nothing_handed_in() {
    { echo "student,lab,tasks,points,of,note" &&
        echo "alice,06,6.1=0 6.2=0 6.3=0 6.4=0,0,10,nothing handed in: wanted 06/lab.c or lab-06.c"; } \
        >"$work/nothing.csv"
    "$build/gradsum" grade "$work/all/alice" --labs ' 6,' | diff "$work/nothing.csv" - || fail "gradsum grade --labs"
}

# Names that could break a format; none of these files compiles.
check_formats() {
    bad='a
b <"&> c' # and, as bytes: ESC, and one that is not valid UTF-8
    hand_in "names/$bad" lab-07.c '#error "]]><&>"'
    hand_in "names/$(printf 'z\033[31m\377')" lab-07.c 'int main'
    grade="$build/gradsum grade $work/names --format"
    $grade junit -o "$work/points.xml" 2>"$work/log" || { cat "$work/log"; fail "--format junit"; }
    xmllint --noout "$work/points.xml" || fail "--format junit is not XML"
    [ "$(xmllint --xpath 'count(//testcase/failure)' "$work/points.xml")" = 10 ] ||
        fail "--format junit: not 10 failures"
    [ "$(xmllint --xpath 'string(//testsuite/@name)' "$work/points.xml")" = 'a\nb <"&> c: lab 07' ] ||
        fail "--format junit: a name"
    $grade json 2>"$work/log" | jq -r '[.student, .points, .of, .problem, (.tasks | length)] | @tsv' >"$work/points.tsv"
    printf '%s\t0\t10\tit does not compile\t5\n' 'a\\nb <"&> c' 'z\\x1b[31m\\xff' | diff - "$work/points.tsv" ||
        fail "--format json"
    $grade moodle >"$work/moodle.csv" 2>"$work/log" || fail "--format moodle"
    compiler_left_out <"$work/moodle.csv" >"$work/moodle.short"
    diff - "$work/moodle.short" <<'END' || fail "--format moodle"
identifier,lab 07,lab 07 feedback
"a\nb <""&> c",0,it does not compile
z\x1b[31m\xff,0,it does not compile
END
    $grade gradescope -o "$work/gradescope" 2>"$work/log" || { cat "$work/log"; fail "--format gradescope"; }
    for file in 'a%5Cnb %3C%22%26%3E c.json' 'z%5Cx1b%5B31m%5Cxff.json'; do
        jq -e '.score == 0 and .extra_data.max_score == 10 and (.tests | length) == 5 and
               all(.tests[]; .visibility == "visible" and .output == "it does not compile")' "$work/gradescope/$file" \
            >/dev/null || fail "--format gradescope: $file"
    done
    grep -q 'hand-in' "$work/points.xml" "$work/gradescope/"* && fail "a message names the folder of the copy"
    $grade csv >/dev/full 2>"$work/log" && fail "gradsum grade: a lost table must be a failure"
    grep -q "standard output could not be written" "$work/log" ||
        { cat "$work/log"; fail "gradsum grade: a lost table"; }
}

# If a file system treats Alice.json and alice.json as one file, neither result is lost. Lab 4 is written in lab.cl.
check_names_and_kinds() {
    hand_in twins/alice lab-07.c 'int main'
    "$build/gradsum" grade "$work/all/Alice" "$work/twins/alice" --format gradescope -o "$work/twins.out" 2>"$work/log"
    [ "$(cd "$work/twins.out" && echo *)" = "Alice.json alice-2.json" ] ||
        { ls "$work/twins.out"; fail "gradescope: two names"; }
    [ "$(jq -r .extra_data.student "$work/twins.out/alice-2.json")" = alice ] || fail "gradescope: the student"
    hand_in kinds/alice 04/lab.c 'int main'
    "$build/gradsum" grade "$work/kinds" | grep -q ',0,10,"lab 04 is written in lab.cl, and this is a lab.c"$' ||
        fail "gradsum grade: a lab.c for lab 04"
}

# The results.json of one student may go to standard output, as Gradescope's machine expects; those of several may not.
check_gradescope_alone() {
    "$build/gradsum" grade "$work/all/Alice" --format gradescope 2>"$work/log" | jq -e '.score == 0' >/dev/null ||
        fail "gradescope: one student"
    "$build/gradsum" grade "$work/all" --format gradescope >"$work/log" 2>&1
    [ $? = 2 ] && grep -q "writes a file for each of 15 students: -o DIR is required" "$work/log" ||
        { cat "$work/log"; fail "gradescope: several students"; }
    "$build/gradsum" grade "$work/all/Alice" --format gradescope -o "$work/log" 2>"$work/no"
    [ $? = 1 ] && grep -q "cannot write into the folder" "$work/no" || { cat "$work/no"; fail "gradescope: -o FILE"; }
}

# The board of lab 16: cleo keeps two units and gathers less, so she is first in 16.4, and its points are the same for
# all. Ben has handed in the unwritten lab, and eve nothing: they have no place.
check_board() {
    for student in ada ben cleo dan; do
        mkdir -p "$work/board/$student/16" && cp lessons/16-zero/solution.c "$work/board/$student/16/lab.c"
    done
    cp lessons/16-zero/lab.c "$work/board/ben/16/lab.c" && hand_in board/eve notes.txt "my dog ate it"
    sed -i 's/if (u + 1 < units) then(p, DROP/if (u + 2 < units) then(p, DROP/
            s/if (u > 0) then(p, GATHER/if (u > 0 \&\& u < units - 1) then(p, GATHER/' "$work/board/cleo/16/lab.c"
    "$build/gradsum" grade "$work/board" --board --seed 1 -o "$work/points.csv" 2>"$work/log" ||
        { cat "$work/log"; fail "gradsum grade --board"; }
    [ "$(grep -c ',10,10,' "$work/points.csv")" = 3 ] || { cat "$work/points.csv"; fail "--board: the points"; }
    sed -n '/^board:/,$p' "$work/log" | sed 's/  *[0-9,]*$//' >"$work/shown"
    diff - "$work/shown" <<'END' || fail "gradsum grade --board"
board: 16.2 a step of stage 1: bytes sent
   1  ada
   1  cleo
   1  dan

board: 16.4 stage 3: gather ahead, drop, gather again: gathers
   1  cleo
   2  ada
   2  dan
END
    "$build/gradsum" grade "$work/board" --labs 16 2>&1 | grep '^board' && fail "a board without --board"
}

# A signal ends grading at once, even while an endless hand-in runs. The loop waits until that hand-in's folder exists.
check_stopped() {
    mkdir -p "$work/stopped/mia/07"
    sed 's,^ *gs_sync_round(s);,    for (;;);,' $solution >"$work/stopped/mia/07/lab.c"
    LAB_SECONDS=600 "$build/gradsum" grade "$work/stopped" -o "$work/stopped.csv" 2>"$work/log" &
    grader=$!
    for i in $(seq 600); do
        [ -n "$(find "$build/lessons/07" -path '*hand-in-*/hand-in')" ] && break
        sleep 0.1
    done
    kill -TERM $grader
    wait $grader
    [ $? = 143 ] && grep -q 'stopped by a signal' "$work/log" || { cat "$work/log"; fail "gradsum grade: a signal"; }
    [ ! -e "$work/stopped.csv" ] || fail "gradsum grade: half a table after a signal"
}

check_all_kinds
check_shown
check_stopped
check_exported
check_nothing_handed_in
check_formats
check_names_and_kinds
check_gradescope_alone
check_board
# Parts that run in parallel use separate folders in test/.
[ -z "$(find "$build/lessons" -path "$build/lessons/test" -prune -o -name 'hand-in-*' -print)" ] ||
    fail "gradsum grade leaves folders behind"
[ $failures = 0 ] && echo "hand-ins: good and bad ones, in each format"
