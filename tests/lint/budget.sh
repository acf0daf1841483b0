#!/bin/sh
# budget.sh: the lines of each part of the tree are at most the limit in the table below. A change that removes lines
# lowers the limit. Only an addition that .github/CONTRIBUTING.md's table lists may raise it; any other change that adds
# lines first removes as many elsewhere in that part. In src, cpu, cl and tests the lines of .c, .h, .cc, .cl and .clh
# files count; in lessons, those of all text files. The training folders, src/train, parallel, predict and persist, are
# one part.
limits='
training            17758
src/comm            10539
src/cli              9797
src/explain          1989
cpu+cl              17094
the-rest-of-src     20803
src+cpu+cl          77980
tests               43055
lessons             41975
'
code() {
    find "$@" -type f \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cl' -o -name '*.clh' \) -exec cat {} + | wc -l
}
train=$(code src/train src/parallel src/predict src/persist) comm=$(code src/comm) cli=$(code src/cli)
explain=$(code src/explain) operators=$(code cpu cl)
rest=$(($(code src) - train - comm - cli - explain))
lines="training          $train
src/comm $comm
src/cli $cli
src/explain $explain
cpu+cl $operators
the-rest-of-src $rest
src+cpu+cl $((train + comm + cli + explain + operators + rest))
tests $(code tests)
lessons $(grep -rIh '' lessons | wc -l)"

# judge LIMITS: prints each part's lines and limit; fails if a part has more lines than its limit, or no limit.
judge() {
    printf '%s\n--\n%s\n' "$1" "$lines" | awk '
        $1 == "--" { counted = 1 }
        NF != 2 { next }
        !counted { limit[$1] = $2; next }
        !($1 in limit) { print "budget: " $1 " has no limit in tests/lint/budget.sh: write e.g. " $2; wrong = 1; next }
        { printf "%-16s %6d lines of %6d\n", $1, $2, limit[$1] }
        $2 > limit[$1] {
            printf "budget: %s has %d lines, %d more than its limit in tests/lint/budget.sh; remove as many there\n",
                   $1, $2, $2 - limit[$1]
            wrong = 1
        }
        END { exit wrong }'
}

# A test of the check: it fails for a limit that is one line too low, and for a part without a limit.
judge "$lines" >/dev/null || { echo "budget: refuses as many lines as the limit; wanted success"; exit 1; }
for part in $(echo "$lines" | cut -d ' ' -f 1); do
    low=$(echo "$lines" | awk -v part="$part" '{ print $1, $1 == part ? $2 - 1 : $2 }')
    none=$(echo "$lines" | grep -v "^$part ")
    judge "$low" | grep -q "^budget: $part has [0-9]* lines, 1 more than" && ! judge "$low" >/dev/null &&
        judge "$none" | grep -q "^budget: $part has no limit" && ! judge "$none" >/dev/null ||
        { echo "budget: accepts too many lines in $part"; exit 1; }
done
judge "$limits"
