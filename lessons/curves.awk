# curves.awk: curves as SVG. Lines of its input:
#
#     set NAME VALUE       x, y: what is on the axes; x_log, y_log: 1; x_ticks, y_ticks: numbers, 1024=1_KB too; x_min,
#                          x_max, y_min, y_max; left: room for the numbers at y
#     = STYLE TITLE        a curve: line, dash, steps, dots or both (dots on a line); below it
#     X Y                  its points; behind them =WORD at the point, or the least and the most Y
#     from FILE X Y [N]    points from these columns of FILE; of its block N only: blank lines end a block
function px(x) { return left + (668 - left) * (log_of("x", x) - low["x"]) / (high["x"] - low["x"]) }
function py(y) { return 330 - 296 * (log_of("y", y) - low["y"]) / (high["y"] - low["y"]) }
function log_of(axis, v) { return set[axis "_log"] ? log(v > 0 ? v : 1e-30) / log(10) : v }
function text(x, y, anchor, words) {
    return sprintf("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>", x, y, anchor, words)
}
function path(d, look) { return "<path d=\"" d "\" fill=\"none\" " look "/>" }
function dot(c, x, y, colour) {
    if (c % 3 == 1) return sprintf("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>", x, y, colour)
    return path(sprintf(c % 3 ? "M%.1f %.1fl5 8h-10z" : "M%.1f %.1fm-4 -4h8v8h-8z", x, y - 5 * (c % 3 > 0)),
                "style=\"fill:" colour "\"")
}
function point(a, b) { n++; of[n] = curves; x[n] = a + 0; y[n] = b + 0 }
function read(file, a, b, block, row, part, at) {
    for (at = 1; (getline row < file) > 0;) {
        if (split(row, part, " ") == 0) at += seen
        seen = part[1] != ""
        if (row ~ /^#/ || part[a] !~ /^[-+]?[.0-9]/ || part[b] !~ /^[-+]?[.0-9]/ || block && at != block) continue
        point(part[a], part[b])
    }
    close(file)
}
function bounds(axis, i, v) {
    for (i = 1; i <= n; i++) {
        v = axis == "x" ? x[i] : y[i]
        if (i == 1 || v < low[axis]) low[axis] = v
        if (i == 1 || v > high[axis]) high[axis] = v
    }
    if (axis "_min" in set) low[axis] = set[axis "_min"]
    if (axis "_max" in set) high[axis] = set[axis "_max"]
    low[axis] = log_of(axis, low[axis]); high[axis] = log_of(axis, high[axis])
}
# The numbers at the axis: "at=label ...". Powers of ten, or steps of 1, 2 or 5 times one.
function ticks(axis, step, t, all) {
    if (axis "_ticks" in set) return set[axis "_ticks"]
    step = (high[axis] - low[axis]) / 5
    if (set[axis "_log"]) {
        for (t = int(low[axis] + 99.999) - 99; t <= high[axis] + 1e-6; t += step > 1.2 ? 2 : 1)
            all = all " " 10 ^ t "=" (t < -3 || t > 4 ? "10<tspan_dy='-5'_font-size='10'>" t "</tspan>" : 10 ^ t)
        return all
    }
    for (t = 1e-9; t * 10 < step; t *= 10) ;
    step = 2 * t >= step ? 2 * t : 5 * t >= step ? 5 * t : 10 * t
    for (t = step * int(low[axis] / step + .999); t <= high[axis] + step / 100; t += step) all = all " " t
    return all
}
function draw_axis(name, i, count, pairs, at, label) {
    count = split(ticks(name), pairs, " ")
    for (i = 1; i <= count; i++) {
        at = label = pairs[i]
        if (match(at, "=")) { label = substr(at, RSTART + 1); at = substr(at, 1, RSTART - 1) }
        gsub("_", " ", label)
        grid = grid (name == "x" ? sprintf("M%.1f 34V330", px(at)) : sprintf("M%d %.1fH668", left, py(at)))
        labels = labels (name == "x" ? text(px(at), 348, "middle", label) : text(left - 6, py(at) + 4, "end", label))
    }
}
BEGIN { split("#0072b2 #d55e00 #009e73 #555555 #a0338a #888888", colours, " ") }
$1 == "set" { name = $2; $1 = $2 = ""; set[name] = substr($0, 3); next }
$1 == "=" { curves++; style[curves] = $2; $1 = $2 = ""; title[curves] = substr($0, 3); next }
$1 == "from" { read($2, $3, $4, $5); next }
NF >= 2 && $1 $2 ~ /^[-+.0-9e]+$/ {
    point($1, $2)
    word[n] = $3 ~ /^=/ ? substr($3, 2) : ""
    least[n] = NF == 4 ? $3 : 0; most[n] = $4
}
END {
    left = set["left"] ? set["left"] : 64
    height = 392 + 22 * int((curves + 1) / 2)
    bounds("x"); bounds("y"); draw_axis("x"); draw_axis("y")
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 700 %d\" width=\"700\" height=\"%d\">", \
        height, height
    printf "<title>%s by %s</title><rect width=\"700\" height=\"%d\" fill=\"#fff\"/>", set["y"], set["x"], height
    print "<g font-family=\"sans-serif\" font-size=\"13\" fill=\"#1b2430\">"
    print path(grid "M" left " 34V330H668", "stroke=\"#ccd3db\"")
    print labels text(8, 18, "start", set["y"]) text(668, 370, "end", set["x"])
    for (c = 1; c <= curves; c++) {
        colour = colours[(c - 1) % 6 + 1]; d = dots = ""
        for (i = 1; i <= n; i++) {
            if (of[i] != c || log_of("y", y[i]) < low["y"] - 1e-9) continue
            h = sprintf("%.1f", px(x[i])); v = sprintf("%.1f", py(y[i]))
            d = d (d == "" ? "M" : style[c] == "steps" ? "H" h "L" : "L") h " " v
            if (style[c] ~ /dots|both/) dots = dots dot(c, h, v, colour)
            if (least[i]) dots = dots path("M" h " " py(least[i]) "V" py(most[i]), "stroke=\"" colour "\"")
            end = h > 600 # near the right edge words stand to the left of their point
            if (word[i] != "") dots = dots text(end ? h - 8 : h + 8, v - 6, end ? "end" : "start", word[i])
        }
        look = "stroke-width=\"2\" stroke=\"" colour "\"" (style[c] == "dash" ? " stroke-dasharray=\"6 4\"" : "")
        at = 64 + 310 * ((c - 1) % 2); down = 388 + 22 * int((c - 1) / 2)
        key = style[c] == "dots" ? "" : path("M" at " " down "h26", look)
        if (style[c] ~ /dots|both/) key = key dot(c, at + 13, down, colour)
        print (style[c] == "dots" ? "" : path(d, look)) dots key text(at + 34, down + 4, "start", title[c])
    }
    print "</g></svg>"
}
