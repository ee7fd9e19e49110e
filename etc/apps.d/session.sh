# Shell functions for templates whose jobs are reached over the network, by users or programs.
# A template includes them by `include: session.sh`; the file is not run by itself.

# Prints a TCP port that is free on this host now.
session_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
}

# Prints 32 random hexadecimal digits.
session_token() {
    od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}

# Prints the address to listen at: only for this host, or for the network.
session_bind() {
    case $CB_APP_BIND in
        network) echo 0.0.0.0 ;;
        *) echo 127.0.0.1 ;;
    esac
}

# session_ready KIND PORT TOKEN [PATH [WEB_PORT]]: writes a file that says how to reach the session and that only
# the job's user can read, and removes it when the job ends. WEB_PORT: port of a second program that serves HTTP.
# See docs/apps.md, Sessions.
session_ready() {
    session_dir=${CB_CONNECT_DIR:-$HOME/.corral/connect}
    session_file=$session_dir/$CB_JOBID.$CB_JOBINDEX.json
    trap 'rm -f "$session_file"' EXIT
    trap 'exit 143' INT TERM
    (
        umask 077
        mkdir -p "$session_dir" || exit
        printf '{"job_id":%s,"index":%s,"kind":"%s","host":"%s","port":%s,"bind":"%s","token":"%s","url":"%s"%s}\n' \
            "$CB_JOBID" "$CB_JOBINDEX" "$1" "$(uname -n)" "$2" "$(session_bind)" "$3" \
            "http://$(uname -n):${5:-$2}$4" "${5:+,\"web_port\":$5}" > "$session_file.tmp" &&
            mv "$session_file.tmp" "$session_file"
    ) || echo "no connection file: $session_dir" >&2
    echo "Connect: $1 on $(uname -n), port $2; token and address in $session_file"
}

# session_wait PID: waits for the program of the session; its exit code is the job's.
session_wait() {
    trap 'kill "$1" 2> /dev/null; exit 143' INT TERM
    wait "$1"
}
