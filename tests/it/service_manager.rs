//! What daemons tell the service manager that starts them: this test is one, with a socket for each.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A daemon, and what it said.
struct Service {
    child: Child,
    socket: UnixDatagram,
    said: Vec<String>,
}

impl Service {
    fn start(role: &str, dir: &Path) -> Service {
        let path = dir.join(format!("{role}.notify"));
        let socket = UnixDatagram::bind(&path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let log = std::fs::File::create(dir.join(format!("{role}.log"))).unwrap();
        let programs = Path::new(env!("CARGO_BIN_EXE_cb")).parent().unwrap();
        let child = Command::new(programs.join(role))
            .env("CB_ENVDIR", dir)
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "8000000")
            .current_dir(dir)
            .stderr(log)
            .spawn()
            .unwrap();
        Service {
            child,
            socket,
            said: Vec::new(),
        }
    }

    /// Waits until it has said a message with these words.
    fn until(&mut self, words: &str) {
        let end = crate::patience::deadline();
        let mut buffer = [0; 1000];
        while !self.said.iter().any(|text| text.contains(words)) {
            assert!(Instant::now() < end, "no {words:?} in {:?}", self.said);
            if let Ok(len) = self.socket.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
                self.said.push(text);
            }
        }
    }

    fn terminate(&mut self) {
        crate::cluster::signal(self.child.id() as i32, "-TERM");
        self.until("STOPPING=1");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn daemons_say_when_they_serve_live_and_end() {
    let tmp = tempfile::tempdir().unwrap();
    let (share, local) = (tmp.path().join("share"), tmp.path().join("local"));
    std::fs::create_dir(&local).unwrap();
    let conf = format!(
        "CB_SHARE={}\nCB_HOST=n1\nCB_LOCAL={}\n",
        share.display(),
        local.display()
    );
    std::fs::write(tmp.path().join("cb.conf"), conf).unwrap();
    let start = |role| Service::start(role, tmp.path());

    // Without a cluster a daemon ends and has never been ready.
    let mut early = start("cbls");
    assert!(!early.child.wait().unwrap().success());
    assert!(
        early.socket.recv(&mut [0; 100]).is_err(),
        "it said something"
    );
    drop(early);
    std::fs::remove_file(tmp.path().join("cbls.notify")).unwrap();

    let made = Command::new(env!("CARGO_BIN_EXE_cb"))
        .args(["cadmin", "init"])
        .arg(&share)
        .status();
    assert!(made.unwrap().success());
    let mut cbsched = start("cbsched");
    cbsched.until("READY=1");
    cbsched.until("STATUS=leads epoch 1");
    let mut cbls = start("cbls");
    cbls.until("READY=1\nSTATUS=reports the load");
    assert!(
        share.join("hosts/n1/load.yaml").exists(),
        "ready means that it has reported"
    );
    let mut cbexe = start("cbexe");
    cbexe.until("READY=1\nSTATUS=follows orders");
    for watched in [&mut cbsched, &mut cbls] {
        watched.until("WATCHDOG=1");
        let ready = watched.said.iter().filter(|text| text.contains("READY=1"));
        assert_eq!(ready.count(), 1, "{:?}", watched.said);
    }
    cbexe.terminate();
    cbls.terminate();
    cbsched.terminate();
    assert!(
        !cbexe.said.iter().any(|text| text.contains("WATCHDOG")),
        "{:?}",
        cbexe.said
    );
}
