# What make.sh and test_golden.sh share; sourced after `bin` and `work` are set. A single node listens anywhere; those of a cluster have addresses that their disks know.
peers=127.61.7.1:27091,127.61.7.2:27091,127.61.7.3:27091
nodes=()
start_with() { # DIRECTORY OPTION...: STELE_BOOTSTRAP is its address then, and those of the nodes that run already
    local ready at fd; ready=$work/ready$((${#nodes[@]} + 1)); at=$1; shift
    rm -f "$ready"; mkfifo "$ready"
    exec {fd}<>"$ready" # a node does not wait for its reader
    "$bin/steled" --data "$at" "$@" >"$ready" 2>>"$work/steled.log" &
    nodes+=($!)
    waits+=("$fd")
}
wait_ready() { # of all that were started
    local fd word address; STELE_BOOTSTRAP=
    for fd in "${waits[@]}"; do
        read -r -t 60 word address <&"$fd" && [ "$word" = ready ] || return 1
        exec {fd}<&-
        STELE_BOOTSTRAP=$STELE_BOOTSTRAP${STELE_BOOTSTRAP:+,}$address
    done
    waits=()
    export STELE_BOOTSTRAP
}
waits=()
start() { start_with "$1" --listen 127.0.0.1:0; wait_ready; } # DIRECTORY
start_three() { # DIRECTORY: 1, 2 and 3 in it
    local k
    for k in 1 2 3; do start_with "$1/$k" --listen "127.61.7.$k:27091" --peers "$peers" --node "$k"; done
    wait_ready
}
stop() { # SIGNAL: sets `failed` to the number of nodes that did not end with 0
    local node; failed=0
    for node in "${nodes[@]}"; do kill "$1" "$node" 2>/dev/null || true; done
    for node in "${nodes[@]}"; do wait "$node" 2>/dev/null || failed=$((failed + 1)); done
    nodes=()
}
topics() { "$bin/stele" topic list -o json | python3 -c 'import json, sys; [print(t["name"]) for t in json.load(sys.stdin)["topics"]]' | sort; }
records() { "$bin/stele" consume "$1" --from beginning --to end -f '%p %o %T %k %S %s %h\n' | sort -n -k1,1 -k2,2; } # TOPIC
