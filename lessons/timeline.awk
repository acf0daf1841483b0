# timeline.awk: a timeline as SVG from lines "BEGIN END LANE WHAT", in ms, below "= TITLE" for each of the runs. Lanes:
# compute and sync.
function text(x, y, anchor, words) {
    return sprintf("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>", x, y, anchor, words)
}
function row(run, lane) { return 28 + (run - 1) * 98 + (lane == "sync") * 30 }
BEGIN {
    split("load #e6eaef forward #8fc1ea backward #f2b27a sum #c9c1ea update #b9d8c4 waits #ffffff", pairs, " ")
    for (i = 1; i in pairs; i += 2) colour[pairs[i]] = pairs[i + 1]
}
$1 == "=" { run++; title[run] = substr($0, 3); next }
{
    n++; at[n] = run; from[n] = $1; to[n] = $2; lane[n] = $3; kind[n] = $4
    $1 = $2 = $3 = ""; what[n] = substr($0, 4)
    if (to[n] > end) end = to[n]
}
END {
    height = 98 * run + 18
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 700 %d\" width=\"700\" height=\"%d\">", \
        height, height
    printf "<title>timeline</title><rect width=\"700\" height=\"%d\" fill=\"#fff\"/>", height
    print "<g font-family=\"sans-serif\" font-size=\"11\" fill=\"#1b2430\">"
    unit = 620 / end
    for (r = 1; r <= run; r++) {
        printf "<g font-size=\"12\"><g font-weight=\"bold\">%s</g>", text(8, row(r) - 10, "start", title[r])
        print text(8, row(r) + 17, "start", "computes") text(8, row(r, "sync") + 17, "start", "sums") "</g>"
    }
    for (i = 1; i <= n; i++) {
        x = 70 + from[i] * unit; width = (to[i] - from[i]) * unit; y = row(at[i], lane[i])
        printf "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"26\" ", x, y, width
        printf "fill=\"%s\" stroke=\"#5a6675\" stroke-width=\".4\"/>", colour[kind[i]]
        words = width > 6.4 * length(what[i]) ? what[i] : width > 6.4 * length(kind[i]) ? kind[i] : ""
        if (words != "") printf "%s", text(x + width / 2, y + 17, "middle", words)
    }
    step = end > 250 ? 50 : 20
    for (t = 0; t <= end; t += step) printf "%s", text(70 + t * unit, height - 6, "middle", t (t ? "" : " ms"))
    print "\n</g></svg>"
}
