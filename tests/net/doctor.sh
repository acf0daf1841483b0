# shellcheck shell=bash disable=SC2154
# The part `doctor` of tests/net/net.sh, which sources this file: its hosts check each other and a tcp store.

examine() { # host options: output in $work/doctor$h; in $work/timed$h each line with its time
    local h=$1
    shift
    ( on_host $h "$program" doctor --nodes $hosts --node-rank $h --meet "$place" "$@" ) 2>&1 |
        while IFS= read -r line; do echo "$line"; echo "$EPOCHREALTIME $line" >&3; done \
            >"$work/doctor$h" 3>"$work/timed$h"
    return ${PIPESTATUS[0]}
}
examine_all() { # seconds options for host 1
    local h
    process=()
    for ((h = 0; h < hosts; h++)); do
        if [ $h = 1 ]; then examine 1 --timeout $1 "${@:2}" & else examine $h --timeout $1 & fi
        process[h]=$!
    done
    finish
}
each_says() { # its output, pattern, hosts
    local h
    for h in $3; do
        tr -s ' \n' ' ' <"$work/doctor$h" | grep -q "$2" || fail "doctor on host $h: $1: no '$2'" "$work/doctor$h"
        [ "$(awk 'length > 80' "$work/doctor$h")" = "" ] || fail "doctor: more than 80 columns" "$work/doctor$h"
    done
    echo "net: right: doctor at ${place%%:*}: $1$(first_told "$work/timed${3:0:1}" "$work"/timed?)"
}
first_told() { # one host's lines, all hosts' lines: when it names the problem, for a reader
    awk '/The machines of the run/ && $1 > came { came = $1 }
        FILENAME == ARGV[1] && / (WRONG  (absent|closed)|note   waiting) / && !told { told = $1 }
        END { if (told) printf "; told %.1f s after the last had come", told - came }' "$@"
}

doctor_at() { # address, two hosts: the connection from the first to the second is blocked
    local place=$1 from=$2 to=$3
    examine_all 10
    [ "${status[*]}" = "0 0 0" ] || fail "doctor: exit statuses ${status[*]}" "$work"/doctor*
    each_says "all is well" "1 - 2 round trip .* ms, .*bit/s .* \(All is well\|Nothing is wrong\)" "0 1 2"

    examine_all 10 --interface spare
    [ "${status[*]}" = "1 1 1" ] || fail "doctor: a wrong interface: exit statuses ${status[*]}" "$work"/doctor*
    each_says "a wrong interface" \
        "node rank 2 cannot connect to node rank 1 at 10.77.1.1 (spare): .* say --interface $(address 1)" "0 1 2"

    ip -n host$from route add blackhole "$(address $to)/32"
    examine_all 10
    ip -n host$from route delete blackhole "$(address $to)/32"
    [ "${status[*]}" = "1 1 1" ] || fail "doctor: a blocked connection: exit statuses ${status[*]}" "$work"/doctor*
    each_says "a way from host $from to $to that is closed" \
        "node rank 2 cannot connect to node rank 1 at $(address 1) (lan7): .* open its ports" "0 1 2"

    rm "$work"/timed*
    examine 0 --timeout 2 & process[0]=$!
    examine 2 --timeout 10 & process[2]=$!
    wait ${process[0]}; status[0]=$?
    wait ${process[2]}; status[2]=$?
    [ "${status[0]} ${status[2]}" = "1 1" ] || fail "doctor: an absent rank: exit statuses ${status[*]}" "$work"/doctor*
    each_says "an absent rank" \
        "note waiting node rank 1 has not come yet.*WRONG absent node rank 1 did not come within" "0 2"
}

doctor() {
    local h i
    new_hosts && plug_in
    for ((h = 0; h < hosts; h++)); do echo "$(address $h) host$h"; done >"$work/names"
    mount --bind "$work/names" /etc/hosts
    doctor_at "$(base)" 2 1 # it refuses at once
    umount /etc/hosts
    remove_hosts
}
