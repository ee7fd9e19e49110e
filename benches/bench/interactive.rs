//! How long a key takes until its echo is seen: through csub, host and the job's terminal, beside a
//! terminal alone and a connection of this machine to itself.

use crate::cluster::Cluster;
use crate::terminal_bed::Screen;
use crate::{line, quantile};
use corral::sys::stream::{self, PollEntry};
use corral::sys::terminal;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::Instant;

/// Keys that are pressed, one after the other.
const KEYS: usize = 2000;

/// Prints both measures of `name`.
fn report(name: &str, mut press: impl FnMut()) {
    let mut all: Vec<f64> = (0..KEYS)
        .map(|_| {
            let begin = Instant::now();
            press();
            begin.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    all.sort_by(f64::total_cmp);
    line(name, quantile(&all, 0.5), "ms p50", 2.0);
    line(&format!("{name}_p99"), quantile(&all, 0.99), "ms p99", 2.0);
}

pub fn run() {
    let (master, slave) = terminal::open_pair(24, 80).expect("a terminal");
    // A line that becomes too long would take no further key.
    let set = std::process::Command::new("stty")
        .arg("-icanon")
        .stdin(slave.try_clone().expect("a copy"))
        .status();
    assert!(set.expect("stty").success());
    report("echo_bare_pty", || {
        (&master).write_all(b"x").expect("a key");
        let mut byte = [0; 1];
        (&master).read_exact(&mut byte).expect("its echo");
    });
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        let (mut other, _) = listener.accept().expect("a call");
        other.set_nodelay(true).expect("no delay");
        let mut byte = [0; 1];
        while other.read_exact(&mut byte).is_ok() {
            other.write_all(&byte).expect("its echo");
        }
    });
    let mut wire = TcpStream::connect(at).expect("a connection");
    wire.set_nodelay(true).expect("no delay");
    report("echo_bare_tcp", || {
        wire.write_all(b"x").expect("a key");
        wire.read_exact(&mut [0; 1]).expect("its echo");
    });
    let cluster = Cluster::up("--hosts 1 --slots 2 --masters 1");
    let mut command = cluster.command("csub");
    command.args(["-Is", "stty -icanon; echo ready; exec cat >/dev/null"]);
    let mut screen = Screen::run(command, 31, 97);
    screen.until("ready\r\n");
    report("echo_interactive", || {
        screen.keys("x");
        let watched = PollEntry {
            fd: screen.master().as_raw_fd(),
            read: true,
            write: false,
        };
        loop {
            let mut byte = [0; 1];
            match terminal::read_now(screen.master(), &mut byte).expect("its echo") {
                Some(1) => return,
                Some(_) => panic!("the terminal was closed"),
                None => drop(stream::wait(&[watched], None)),
            }
        }
    });
    screen.keys("\x03");
    assert_eq!(screen.code(), 130);
}
