#!/bin/sh
# floors.sh: each #include "..." of src/, cpu/ and cl/ names a file of the same floor or of a lower one. The floors are
# the rows of the table in src/README.md, the highest first.
table=src/README.md
find src cpu cl -name '*.[ch]' -o -name '*.cc' | sort | xargs awk -v table="$table" '
    # src/comm/gloo/x.c -> src/comm/, cpu/add.c -> cpu/, src/backend.h as it is
    function folder(path) {
        if (match(path, /^src\/[^\/]*\//) || match(path, /^(cpu|cl)\//)) return substr(path, 1, RLENGTH)
        return path
    }
    function floor(path, of) {
        of = folder(path)
        if (of in row) return row[of]
        if (!(of in told)) print "floors: " of " has no row in " table
        told[of] = wrong = 1
        return 0
    }
    BEGIN {
        while ((getline line < table) > 0) {
            if (line !~ /^\| `/) continue
            rows++
            split(line, column, "|")
            n = split(column[2], name, "`")
            for (i = 2; i <= n; i += 2) row[name[i]] = rows
        }
        if (rows < 2) { print "floors: no table in " table; exit wrong = 1 }
    }
    /^[ \t]*#[ \t]*include[ \t]+"/ {
        split($0, part, "\"")
        path = part[2]
        flat = path ~ /^(backend|device|operators|gradsum)\.h$/
        if (path !~ /^(cpu|cl)\//) path = flat || path ~ /\// ? "src/" path : ""
        if (path == "" || path ~ /\.pb-c\.h$/) next
        seen++
        here = floor(FILENAME)
        there = floor(path)
        if (here > there && there) {
            printf "%s:%d: includes %s, of a higher floor\n", FILENAME, FNR, path
            wrong = 1
        }
    }
    END {
        if (!wrong && !seen) { print "floors: no #include found"; wrong = 1 }
        exit wrong
    }'
