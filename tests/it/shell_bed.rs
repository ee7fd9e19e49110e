//! A shell in the environment of a cluster, for tests that play programs by the lines they run.

use crate::cluster::Cluster;
use std::process::Command;

/// How one shell line ended.
pub struct ShellOutput {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// A shell in a cluster's environment, as `cadmin dev env` sets it.
pub struct Shell {
    pub cluster: Cluster,
    env: String,
}

impl Shell {
    pub fn new() -> Shell {
        let cluster = Cluster::up("--hosts 2 --slots 4 --masters 1");
        let dir = cluster.dir().to_str().unwrap().to_owned();
        let env = cluster.ok("cadmin", &["dev", "env", "--dir", &dir]);
        Shell { cluster, env }
    }

    /// A line that is not started yet.
    pub fn command(&self, line: &str) -> Command {
        let mut shell = Command::new("bash");
        shell
            .args(["-c", &format!("{}\n{line}", self.env)])
            .current_dir(self.cluster.work());
        shell
    }

    pub fn run(&self, line: &str) -> ShellOutput {
        let out = self.command(line).output().unwrap();
        ShellOutput {
            code: out.status.code().unwrap(),
            out: String::from_utf8(out.stdout).unwrap(),
            err: String::from_utf8(out.stderr).unwrap(),
        }
    }

    /// Standard output of a line that must end with 0.
    pub fn ok(&self, line: &str) -> String {
        let result = self.run(line);
        assert_eq!(result.code, 0, "{line}\n{}{}", result.out, result.err);
        result.out
    }

    /// Standard error of a line that must end with this code and print nothing else.
    pub fn fails(&self, line: &str, code: i32) -> String {
        let result = self.run(line);
        assert_eq!(
            (result.code, result.out.as_str()),
            (code, ""),
            "{line}\n{}",
            result.err
        );
        result.err
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.cluster.work().join(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        let path = self.cluster.work().join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }
}
