# Shell functions for templates whose jobs run on several hosts.
# A template takes them in by `include: hosts.sh`; the file is not run by itself.

# The hosts of the job, each once and in their order, a line for each.
job_hosts() {
    printf '%s\n' $LSB_HOSTS | awk '!seen[$0]++'
}

# The hosts of the job but for this one, which runs the script.
other_hosts() {
    job_hosts | tail -n +2
}

# job_shares FORMAT: a line for each host by a printf format of host and slots.
job_shares() {
    set -- "$1" $LSB_MCPU_HOSTS
    share_format=$1
    shift
    while [ $# -ge 2 ]; do
        printf "$share_format" "$1" "$2"
        shift 2
    done
}

# on_hosts "HOSTS" COMMAND: runs a command once on each of these hosts; nothing without hosts.
on_hosts() {
    on_list=$(echo $1)
    shift
    [ -z "$on_list" ] || claunch -z "$on_list" "$@"
}
