# Shell functions for templates whose jobs run on several hosts.
# A template includes them by `include: hosts.sh`; the file is not run by itself.

# Prints the hosts of the job in their order, each once, one per line.
job_hosts() {
    printf '%s\n' $LSB_HOSTS | awk '!seen[$0]++'
}

# Prints the hosts of the job except this one, which runs the script.
other_hosts() {
    job_hosts | tail -n +2
}

# job_shares FORMAT: prints a line for each host, with a printf format for host and slots.
job_shares() {
    set -- "$1" $LSB_MCPU_HOSTS
    share_format=$1
    shift
    while [ $# -ge 2 ]; do
        printf "$share_format" "$1" "$2"
        shift 2
    done
}

# on_hosts "HOSTS" COMMAND: runs a command once on each of these hosts; without hosts, does nothing.
on_hosts() {
    on_list=$(echo $1)
    shift
    [ -z "$on_list" ] || claunch -z "$on_list" "$@"
}
