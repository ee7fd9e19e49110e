//! `sbatch`: submits a batch script with Slurm's options, and prints the line from which programs
//! read the id.

use super::command_line::help_option;
use crate::client::cli::{Table, command, texts, trailing_command};
use crate::client::csub::foreign::ForeignOption;
use crate::client::csub::foreign::slurm::HETEROGENEOUS;
use crate::client::csub::foreign::slurm_table::with_options;
use crate::client::csub::sbatch_job::{BatchCall, BatchError, SubmittedBatch, submit};
use crate::client::cwait;
use crate::client::exit::{Exit, Fail};
use clap::Command;
use std::ffi::OsString;

/// Variables that set options which the command line does not give: the variable, the option,
/// whether it is an option without a value.
const VARIABLES: &[(&str, &str, bool)] = &[
    ("SBATCH_ACCOUNT", "account", false),
    ("SBATCH_ARRAY_INX", "array", false),
    ("SBATCH_CONSTRAINT", "constraint", false),
    ("SBATCH_EXPORT", "export", false),
    ("SBATCH_GPUS", "gpus", false),
    ("SBATCH_GPUS_PER_NODE", "gpus-per-node", false),
    ("SBATCH_GPUS_PER_TASK", "gpus-per-task", false),
    ("SBATCH_GRES", "gres", false),
    ("SBATCH_INPUT", "input", false),
    ("SBATCH_JOB_NAME", "job-name", false),
    ("SBATCH_MEM_PER_CPU", "mem-per-cpu", false),
    ("SBATCH_MEM_PER_NODE", "mem", false),
    ("SBATCH_NO_REQUEUE", "no-requeue", true),
    ("SBATCH_OPEN_MODE", "open-mode", false),
    ("SBATCH_OUTPUT", "output", false),
    ("SBATCH_ERROR", "error", false),
    ("SBATCH_PARTITION", "partition", false),
    ("SBATCH_QOS", "qos", false),
    ("SBATCH_REQUEUE", "requeue", true),
    ("SBATCH_SIGNAL", "signal", false),
    ("SBATCH_TIMELIMIT", "time", false),
    ("SBATCH_WAIT", "wait", true),
];

fn options() -> Command {
    let cmd = command("sbatch", "Submit a batch script, as Slurm's command does")
        .disable_help_flag(true)
        .arg(help_option().short('h'))
        .arg(trailing_command(
            "SCRIPT",
            "The script and its arguments; default: the script is read from standard input",
        ));
    with_options(cmd)
}

/// Runs `sbatch`; returns the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let table = Table::getopt_long(options());
    let split = match texts(args).and_then(|words| table.split(&words)) {
        Ok(split) => split,
        Err(e) => {
            let text = format!("{e}\nTry \"sbatch --help\" for more information");
            return Fail::usage(text).report("sbatch");
        }
    };
    let is_help = |id: &str| matches!(id, "help" | "version");
    if split.given.iter().any(|g| is_help(table.id(g))) {
        return table.check(&split).err().unwrap_or(0);
    }
    let given = split.given.into_iter().map(|given| ForeignOption {
        option: table.id(&given).to_owned(),
        value: given.value,
        location: String::new(),
    });
    let line_options: Vec<ForeignOption> = given.collect();
    let of = |option: &str| {
        line_options
            .iter()
            .rfind(|given_option| given_option.option == option)
    };
    if split.operands.first().is_some_and(|word| word == ":") {
        return failed(Fail::usage(format!(":: {HETEROGENEOUS}")));
    }
    let mut operands = split.operands.into_iter();
    let (parsable, quiet) = (of("parsable").is_some(), of("quiet").is_some());
    let called = BatchCall {
        wrap: of("wrap").map(|given_option| given_option.value.clone()),
        environment_options: from_environment(|name| std::env::var(name).ok()),
        file: operands.next(),
        args: operands.collect(),
        line_options,
        quiet,
    };
    match submit(called) {
        Ok(sent) => answer(&sent, parsable),
        Err(BatchError::NoAnswer(code)) => code,
        Err(BatchError::Fail(fail)) => failed(fail),
    }
}

/// Prints the line that programs read.
fn answer(sent: &SubmittedBatch, parsable: bool) -> i32 {
    match parsable {
        true => println!("{}", sent.run.id),
        false => println!("Submitted batch job {}", sent.run.id),
    }
    match sent.wait {
        true => cwait::watch_until_end(&sent.site, sent.run.id, sent.run.t, &mut |_, _| {}),
        false => Exit::Ok.code(),
    }
}

fn failed(fail: Fail) -> i32 {
    let text = match fail.exit {
        Exit::Usage => fail.text,
        _ => format!("Batch job submission failed: {}", fail.text),
    };
    let text = text.replace('\n', "\nsbatch: error: ");
    Fail::new(fail.exit, text).report("sbatch")
}

fn from_environment(value: impl Fn(&str) -> Option<String>) -> Vec<ForeignOption> {
    let found = VARIABLES.iter().filter_map(|(name, option, flag)| {
        let value = value(name)?;
        Some(ForeignOption {
            option: (*option).to_owned(),
            value: if *flag { String::new() } else { value },
            location: format!("{name}: "),
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::csub::foreign::slurm_table::option;

    #[test]
    fn variables_stand_for_options_that_exist() {
        assert!(VARIABLES.iter().all(|(_, name, _)| option(name).is_some()));
        let set = |name: &str| (name == "SBATCH_REQUEUE").then(|| "1".to_owned());
        let all = from_environment(set);
        assert_eq!((all.len(), all[0].option.as_str()), (1, "requeue"));
        assert_eq!(
            (all[0].value.as_str(), all[0].location.as_str()),
            ("", "SBATCH_REQUEUE: ")
        );
    }

    #[test]
    fn forms_of_slurms_command_line_are_understood() {
        let table = Table::getopt_long(options());
        let words = |line: &str| -> Vec<String> {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let split = table.split(&words).unwrap();
            let given = split.given.iter();
            let mut all: Vec<String> = given
                .map(|g| format!("{}={}", table.id(g), g.value))
                .collect();
            all.extend(split.operands);
            all
        };
        assert_eq!(
            words("-Jname -n4 -p q --time=5 --mem 1G --exclusive --nice=3 -H s.sh -n 9"),
            [
                "job-name=name",
                "ntasks=4",
                "partition=q",
                "time=5",
                "mem=1G",
                "exclusive=",
                "nice=3",
                "hold=",
                "s.sh",
                "-n",
                "9"
            ]
        );
        assert!(table.split(&["--nonsense".to_owned()]).is_err());
    }
}
