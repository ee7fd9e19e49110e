//! Windows of interactive jobs (`csub -XF`) on a real cluster, with a display that the test plays:
//! it wants its cookie and sends back what it gets.

use crate::cluster::{Cluster, kill_9, text};
use crate::patience::{PATIENCE, until};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

const HOSTS: &str = "--hosts 2 --slots 2 --masters 1";
const COOKIE: &[u8; 16] = b"the true cookie!";
/// What a client does: `hello COOKIE_FILE` opens descriptor 3 and says who it is.
const CLIENT: &str = r#"
port=${DISPLAY#*:}
port=$((6000 + ${port%.*}))
hello() {
    exec 3<>/dev/tcp/127.0.0.1/$port
    { printf 'l\000\013\000\000\000\022\000\020\000\000\000MIT-MAGIC-COOKIE-1\000\000'
      tail -c 16 "$1"; } >&3
}
"#;

/// A display. Each of its clients is told of, with the first words that it said.
struct Display {
    number: u16,
    clients: Receiver<(Vec<u8>, TcpStream)>,
    authority: PathBuf,
}

impl Display {
    fn open(c: &Cluster) -> Display {
        let first = 30_000 + std::process::id() as u16 % 10_000;
        let bound = (first..first + 9_000)
            .find_map(|n| Some((n, TcpListener::bind(("127.0.0.1", 6_000 + n)).ok()?)));
        let (number, listener) = bound.unwrap();
        let (tell, clients) = channel();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, tell) = (client.unwrap(), tell.clone());
                std::thread::spawn(move || {
                    serve(client, |words, client| {
                        let _ = tell.send((words, client));
                    })
                });
            }
        });
        // An entry for this machine, as xauth writes it.
        let name = nix::unistd::gethostname().unwrap();
        let mut entry = vec![1, 0];
        let number_text = number.to_string();
        let texts: [&[u8]; 4] = [
            name.to_str().unwrap().as_bytes(),
            number_text.as_bytes(),
            b"MIT-MAGIC-COOKIE-1",
            COOKIE,
        ];
        for text in texts {
            entry.extend_from_slice(&(text.len() as u16).to_be_bytes());
            entry.extend_from_slice(text);
        }
        let authority = c.work().join("authority");
        std::fs::write(&authority, entry).unwrap();
        Display {
            number,
            clients,
            authority,
        }
    }

    fn csub(&self, c: &Cluster, options: &[&str], script: &str) -> Command {
        let path = c.work().join("client");
        std::fs::write(&path, format!("{CLIENT}{script}")).unwrap();
        let mut command = c.command("csub");
        command
            .args(options)
            .arg("bash")
            .arg(path)
            .env("DISPLAY", format!("127.0.0.1:{}.0", self.number))
            .env("XAUTHORITY", &self.authority)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, c: &Cluster, options: &[&str], script: &str) -> Output {
        self.csub(c, options, script).output().unwrap()
    }

    /// The next client, which came in: no other is told of.
    fn client(&self) -> TcpStream {
        let next = self.clients.recv_timeout(PATIENCE);
        let (words, client) = next.unwrap();
        assert!(words.ends_with(COOKIE), "{words:?}");
        client
    }
}

fn serve(mut client: TcpStream, tell: impl Fn(Vec<u8>, TcpStream)) {
    let mut words = vec![0; 12];
    if client.read_exact(&mut words).is_err() {
        return;
    }
    if words[6] > 0 {
        words.resize(48, 0);
        client.read_exact(&mut words[12..]).unwrap();
    }
    if !words.ends_with(COOKIE) {
        let _ = client.write_all(b"\0\x02\x0b\0\0\0\x01\0no  ");
        return;
    }
    client.write_all(&[1, 0, 11, 0, 0, 0, 0, 0]).unwrap();
    tell(words, client.try_clone().unwrap());
    let mut buf = vec![0; 1 << 16];
    while let Ok(n) = client.read(&mut buf) {
        if n == 0 || client.write_all(&buf[..n]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}

/// The line of what a job says that begins so.
fn said<'a>(out: &'a str, head: &str) -> &'a str {
    let line = out.lines().find_map(|l| l.strip_prefix(head));
    line.unwrap_or_else(|| panic!("no {head} in {out}"))
}

/// Waits until nothing listens there; the next free port of another test may be this one.
fn until_closed(port: u16) {
    until(&format!("nothing listens at {port}"), || {
        TcpStream::connect(("127.0.0.1", port)).is_err()
    });
}

#[test]
fn windows_of_a_job_reach_the_display_of_its_command() {
    for (kind, options) in [
        ("-I", HOSTS.to_owned()),
        ("-Is", format!("{HOSTS} --cgroup off")),
    ] {
        let c = Cluster::up(&options);
        let d = Display::open(&c);
        let script = "
            echo display ${DISPLAY%:*} port $port
            echo file $XAUTHORITY
            echo mode $(stat -c %a $XAUTHORITY) cookie $(tail -c 16 $XAUTHORITY | od -An -tx1)
            hello $XAUTHORITY
            head -c 8 <&3 | od -An -tx1
            head -c 3000000 /dev/zero >&3 &
            head -c 3000000 <&3 | wc -c
            wait
            printf 'echoed\\n' >&3; head -n 1 <&3
            exit 7";
        let out = d.run(&c, &["-XF", kind], script);
        assert_eq!(out.status.code(), Some(7), "{}\n{}", text(&out), c.logs());
        let shown = String::from_utf8_lossy(&out.stdout).replace('\r', "");
        // The check before the submission, then the job's own.
        d.client();
        d.client();
        assert!(
            shown.contains(" 01 00 0b 00") && shown.contains("3000000\nechoed\n"),
            "{shown}"
        );
        let (host, port) = said(&shown, "display ").split_once(" port ").unwrap();
        assert_eq!(host, "127.0.0.1");
        let (mode, cookie) = said(&shown, "mode ").split_once(" cookie ").unwrap();
        let truth: Vec<String> = COOKIE.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(mode, "600");
        assert_ne!(cookie.trim(), truth.join(" "));
        // Nothing is left of it.
        assert!(!PathBuf::from(said(&shown, "file ")).exists(), "{shown}");
        until_closed(port.parse().unwrap());
        // Alone it is -I; the job sees its own TMPDIR; without it there is no display.
        let script = "echo in $TMPDIR; hello $XAUTHORITY; head -c 2 <&3 | od -An -tx1";
        let out = d.run(&c, &["-XF", "-env", "all,TMPDIR=/var/tmp"], script);
        d.client();
        d.client();
        assert_eq!(
            String::from_utf8_lossy(&out.stdout),
            "in /var/tmp\n 01 00\n",
            "{}",
            text(&out)
        );
        let script = "echo at ${DISPLAY-none} ${XAUTHORITY-none}";
        let out = d.run(&c, &["-I", "-env", "~DISPLAY,~XAUTHORITY"], script);
        assert_eq!(
            String::from_utf8_lossy(&out.stdout),
            "at none none\n",
            "{}",
            text(&out)
        );
    }
}

#[test]
fn a_client_without_the_jobs_cookie_is_refused_and_named() {
    let c = Cluster::up(HOSTS);
    let d = Display::open(&c);
    let script = "
        head -c 16 /dev/zero >zeros
        hello zeros; echo got $(wc -c <&3)
        hello truth; echo got $(wc -c <&3)
        hello $XAUTHORITY; echo got $(head -c 8 <&3 | wc -c)";
    std::fs::write(c.work().join("truth"), COOKIE).unwrap();
    let out = d.run(&c, &["-XF"], script);
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "got 0\ngot 0\ngot 8\n",
        "{}",
        text(&out)
    );
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(
        stderr
            .matches("its cookie is not the one of this job")
            .count(),
        2,
        "{stderr}"
    );
    d.client();
    d.client();
    assert!(d.clients.try_recv().is_err());
}

#[test]
fn the_end_of_either_side_ends_the_windows() {
    let c = Cluster::up(HOSTS);
    let d = Display::open(&c);
    // The display hangs up: the client sees it.
    let begin = |script: &str| -> Child {
        let mut command = d.csub(&c, &["-XF"], script);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let child = begin("hello $XAUTHORITY; cat <&3 | wc -c; exit 3");
    d.client();
    d.client().shutdown(Shutdown::Both).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(3), "{}", text(&out));
    assert_eq!(out.stdout, b"8\n");
    // The command is killed: the display sees its client go, and the job ends.
    let child = begin("echo $port >port; echo $XAUTHORITY >file; hello $XAUTHORITY; cat <&3");
    d.client();
    let mut client = d.client();
    kill_9(child.id() as i32);
    child.wait_with_output().unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = client.read_to_end(&mut Vec::new());
    c.wait(|states| states[&(2, 0)] == "EXIT");
    let read = |name| std::fs::read_to_string(c.work().join(name)).unwrap();
    let port = read("port").trim().parse::<u16>().unwrap();
    until_closed(port);
    assert!(!PathBuf::from(read("file").trim()).exists());
}

#[test]
fn without_a_display_that_answers_nothing_is_submitted() {
    let c = Cluster::up(HOSTS);
    let d = Display::open(&c);
    let none = c.work().join("none");
    let name = format!("127.0.0.1:{}", d.number);
    for (display, authority, why) in [
        ("", &d.authority, "DISPLAY is not set"),
        ("here", &d.authority, "it has no colon"),
        (
            "127.0.0.1:59535",
            &d.authority,
            "does not answer (127.0.0.1:65535",
        ),
        (&*name, &none, "it refuses this command: no"),
    ] {
        let mut command = d.csub(&c, &["-XF", "-Is"], "");
        let command = command.env("DISPLAY", display).env("XAUTHORITY", authority);
        let out = command.output().unwrap();
        let output = text(&out);
        assert!(!out.status.success() && output.contains(why), "{output}");
        assert!(output.contains("Job not submitted."), "{output}");
    }
    for (options, why) in [
        (&["-XF", "-K"][..], "-XF and -K cannot be given together"),
        (&["-XF", "-di", "x"], "-XF and -di cannot be given together"),
        (&["-XF", "-pack", "x"], "-pack and"),
    ] {
        let output = text(&d.run(&c, options, ""));
        assert!(output.contains(why), "{options:?}: {output}");
    }
    assert!(c.states().is_empty());
}
