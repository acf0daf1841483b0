#!/bin/sh
# floors.sh: each #include "..." of src/, cpu/ and cl/ names a file of the same floor or of a lower one, and no file
# includes itself through other files. The floors are the rows of the table in src/README.md, the highest first: folders
# and single files.
table=src/README.md
find src cpu cl -name '*.[ch]' -o -name '*.cc' | sort | xargs awk -v table="$table" '
    # the row of src/train/run.c, if there is one; else that of src/train/, else that of src/
    function floor(path, of) {
        for (of = path; of != ""; sub(/[^\/]*\/?$/, "", of)) if (of in row) return row[of]
        if (!(path in told)) print "floors: " path " has no row in " table
        told[path] = wrong = 1
        return 0
    }
    # Follows includes from `file` on, depth first; `way`: the files that led to it
    function visit(file, way, n, i, to) {
        visited[file] = 1
        n = split(includes[file], to, " ")
        for (i = 1; i <= n; i++) {
            if (to[i] in visited) {
                if (!(to[i] in left)) {
                    print "floors: a circle of includes: " substr(way, index(way, to[i])) file " " to[i]
                    wrong = 1
                }
            } else visit(to[i], way file " ")
        }
        left[file] = 1
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
        flat = path ~ /^(backend|device|operands|operators|gradsum)\.h$/
        if (path !~ /^(cpu|cl)\//) path = flat || path ~ /\// ? "src/" path : ""
        if (path == "" || path ~ /\.pb-c\.h$/) next
        seen++
        includes[FILENAME] = includes[FILENAME] " " path
        here = floor(FILENAME)
        there = floor(path)
        if (here > there && there) {
            printf "%s:%d: includes %s, of a higher floor\n", FILENAME, FNR, path
            wrong = 1
        }
    }
    END {
        for (file in includes) if (!(file in visited)) visit(file, "")
        if (!wrong && !seen) { print "floors: no #include found"; wrong = 1 }
        exit wrong
    }'
