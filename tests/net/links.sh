# shellcheck shell=bash disable=SC2154
# The part `links` of tests/net/net.sh, which sources this file: in the middle of a training run with one rank per host
# and a rendezvous in a folder, the link between two hosts is cut, or a process is stopped. All ranks must end with
# status 1, and all must name the link (its two ranks and their addresses) or the stopped rank. No living rank may be
# reported as lost.
#   LINKS_DRAWS=N   how many draws (8; "all": each combination once); LINKS_SEED=S their seed, which is printed
#   LINKS_ONLY=P    only combinations that contain the text P, such as "blackhole" or "3 --sync ring"

strike() { # how a b
    case "$1" in
        down) ip link set port$2 down ;;
        blackhole) ip -n host$2 route add blackhole "$(address $3)/32" ;;
        away) ip -n host$2 link set ${interface[$2]} netns nowhere ;;
        stop) kill -STOP "$(process_of $2)" ;;
    esac
}

# When a host is cut off from all others, some ranks may report only that it is cut off from one of these. TCP detects
# this link by link, and the ranks do not all give up at the same moment.
is_a_part() { # how, what a rank says is cut
    [ "$1" != blackhole ] && [[ $2 != *"each of"* || $2 =~ between\ $with_address ]] && [[ $2 =~ $with_address ]]
}

# Prints what is wrong. `a` is the affected host; `b` is the destination of a black hole.
judge_links() { # how a b
    local r line cut first_cut= struck="(rank|process) $2" other="(rank|process) $3" named
    local with_address="$struck \\($(address $2)\\)" other_with="$other \\($(address $3)\\)"
    case "$1" in
        stop) named="(from|waits? for) $struck(,.*)? on host host$2(;|\$)" ;;
        blackhole) named="$with_address and $other_with|$other_with and $with_address" ;;
        *) named=$with_address ;; # cut off from all others
    esac
    for ((r = 0; r < hosts; r++)); do
        [ "$1 $r" != "stop $2" ] || continue
        line=$(grep '^gradsum train: ' "$work/err$r" | tail -1)
        cut=$(grep -o 'nothing gets through.*' <<<"$line")
        [ $r != 0 ] || first_cut=$cut
        [ "${status[r]}" = 1 ] || echo "rank $r: exit status ${status[r]}" # 124, 137: it did not end
        [[ $line =~ $named ]] || echo "rank $r does not name it: $line"
        [[ $line != *" lost"* ]] || echo "rank $r says lost: $line"
        if [ "$1" = stop ]; then
            [ -z "$cut" ] || echo "rank $r mistakes a stopped process for a cut link: $line"
        else
            [ -n "$cut" ] || echo "rank $r does not say that it is cut: $line"
            [ "$cut" = "$first_cut" ] || is_a_part "$1" "$cut" ||
                echo "rank $r contradicts rank 0: $line"
        fi
    done
}

draw_link() { # how hosts options-of-train; fails if the training did not start
    local how=$1 r i a b begun=true wait_ms=$((RANDOM % 300))
    hosts=$2
    shift 2
    a=$((RANDOM % hosts)) b=$(((a + 1 + RANDOM % (hosts - 1)) % hosts))
    what="$how $hosts $* (rank $a, from rank $b, after $wait_ms ms)"
    rm -rf "$work/meet" "$work"/out* "$work"/err* && mkdir "$work/meet"
    new_hosts && plug_in && ip netns add nowhere
    process=() status=()
    for ((r = 0; r < hosts; r++)); do
        on_host $r env GRADSUM_RANK=$r GRADSUM_WORLD_SIZE=$hosts GRADSUM_RENDEZVOUS="$work/meet" \
            GRADSUM_ADDRESS="$(address $r)" GRADSUM_TIMEOUT=2 "$program" train --model mlp --threads 1 --devices cpu \
            --epochs 1000000 --batch 96 "$@" >"$work/out$r" 2>"$work/err$r" &
        process[r]=$!
    done
    for ((i = 0; i < 400; i++)); do
        grep -qs '^step ' "$work/out0" && break
        kill -0 ${process[0]} 2>/dev/null || break
        sleep 0.05
    done
    sleep "0.$(printf %03d $wait_ms)"
    for ((r = 0; r < hosts; r++)); do [ -n "$(process_of $r)" ] || begun=false; done
    [ $begun = false ] || strike $how $a $b
    for ((r = 0; r < hosts; r++)); do
        [ "$how $r" != "stop $a" ] || [ $begun = false ] || continue
        wait ${process[r]}
        status[r]=$?
    done
    [ "$begun $how" != "true stop" ] || { kill -KILL "$(process_of $a)"; wait ${process[a]} 2>/dev/null; }
    ip netns delete nowhere
    remove_hosts
    [ $begun = false ] || judge_links $how $a $b >"$work/wrong"
    $begun
}

links() {
    local all=() wanted=() way how n one i j k draws=${LINKS_DRAWS:-8} seed=${LINKS_SEED:-$((RANDOM * 32768 + RANDOM))}
    RANDOM=$((seed % 32768))
    echo "net: links: seed $seed (LINKS_SEED)"
    for way in "--sync ps" "--sync allreduce" "--sync ring" "--sync tree" "--zero 1" "--sync async --staleness 2" \
        "--sync local --every 3" "--sync ring --devices cpu,cpu"; do
        for how in down blackhole away stop; do
            for n in 2 3; do all+=("$how $n $way"); done
        done
    done
    for one in "${all[@]}"; do case "$one" in *"${LINKS_ONLY:-}"*) wanted+=("$one") ;; esac; done
    [ ${#wanted[@]} -gt 0 ] || fail "no combination contains '$LINKS_ONLY'"
    for ((i = ${#wanted[@]} - 1; i > 0; i--)); do
        j=$((RANDOM % (i + 1))) one=${wanted[i]}
        wanted[i]=${wanted[j]} wanted[j]=$one
    done
    [ "$draws" != all ] || draws=${#wanted[@]}
    for ((k = 0; k < draws; k++)); do
        for i in 1 2 3; do # a busy machine may exceed so short a timeout before the training has started
            draw_link ${wanted[k % ${#wanted[@]}]} && break
            [ $i != 3 ] || fail "$what: it did not start" "$work"/err*
        done
        [ ! -s "$work/wrong" ] || { cat "$work/wrong"; fail "$what" "$work"/err*; }
        echo "net: right: $what: $(grep -h '^gradsum train: ' "$work"/err* | tail -1)"
    done
    hosts=3
}
