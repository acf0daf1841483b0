# A part of net.sh: launch --elastic over the three hosts, of which one is cut off for good.

# Hosts with 2, 1 and 1 ranks; the cable of one is pulled while they train. -> status[h]; took[h]: seconds after that
elastic_without() { # host seconds(--timeout)
    local h
    rm -f "$work"/out* "$work"/err* "$work"/ended*
    for ((h = 0; h < hosts; h++)); do
        ( on_host $h "$program" launch --nodes $hosts --node-rank $h --meet "$(base)" --timeout $2 --bind none \
            --ranks 2,1,1 --elastic 2 -- $train --exact --steps 40 --slow 0:60 ) >"$work/out$h" 2>"$work/err$h" &
        process[h]=$!
    done
    for ((h = 0; h < 400; h++)); do grep -q '^step ' "$work/out0" && break; sleep 0.05; done
    sleep 0.3
    ip link set port$1 down
    cut_at=$(date +%s%N) status=() took=()
    for h in 2 1 0; do
        wait ${process[h]}
        status[h]=$? took[h]=$((($(date +%s%N) - cut_at) / 1000000))
    done
    ip link set port$1 up
}

elastic() {
    local whole
    new_hosts && plug_in
    whole=$("$program" $train --exact --steps 40 | grep '^weights .*sha256')
    elastic_without 1 3
    [ "${status[*]}" = "0 1 0" ] || fail "--elastic, host 1 cut off: exit statuses ${status[*]}" "$work"/err*
    [ "$(grep '^weights .*sha256' "$work/out0")" = "$whole" ] || fail "--elastic: other weights" "$work"/err*
    grep -q "the launch of node rank 1 has gone, with its ranks; generation 2: 2 go on" "$work/err2" ||
        fail "--elastic: host 2 does not say that host 1 has gone" "$work/err2"
    grep -q "node rank 0, where the launches agree, cannot be reached any more" "$work/err1" ||
        fail "--elastic: host 1 does not say that it is cut off" "$work/err1"
    echo "net: right: --elastic, host 1 cut off: $(grep -h 'generation 2' "$work/err0")"

    elastic_without 0 3
    [ "${status[*]}" = "0 1 1" ] || fail "--elastic, host 0 cut off: exit statuses ${status[*]}" "$work"/err*
    [ "$(grep '^weights .*sha256' "$work/out0")" = "$whole" ] || fail "--elastic: other weights" "$work"/err*
    for h in 1 2; do
        grep -q "node rank 0, where the launches agree, cannot be reached any more" "$work/err$h" ||
            fail "--elastic: host $h does not say that host 0 is cut off" "$work/err$h"
    done
    echo "net: right: --elastic, host 0 cut off: the others end, after ${took[2]} and ${took[1]} ms of 3 s and 2 s"
    remove_hosts
}
