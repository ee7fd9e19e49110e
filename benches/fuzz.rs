//! Mutation of well-formed inputs until something panics, hangs or takes too much memory:
//! `sbin/fuzz NAME [SECONDS [SEED]]`. Owns the loop; inputs and what must hold of them belong to the
//! targets. Built with overflow checks. The input that was being tried is left in `target/fuzz/`.

#![allow(clippy::disallowed_methods)] // measures with clocks, makes files
#![allow(unreachable_pub)] // a program of its own

#[path = "fuzz/files.rs"]
mod files;
#[path = "fuzz/frames.rs"]
mod frames;
#[path = "fuzz/meter.rs"]
mod meter;
#[path = "fuzz/scene.rs"]
mod scene;
#[path = "fuzz/texts.rs"]
mod texts;

use meter::{Cost, Meter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// One kind of input.
pub trait Target {
    /// Makes the next input.
    fn make(&mut self, dice: &mut Dice);
    /// Feeds it to what reads it; panics when what comes out is wrong.
    fn run(&mut self);
    /// The input as files, for whoever looks into a failure.
    fn files(&self) -> Vec<(String, Vec<u8>)>;
}

type Maker = fn() -> Box<dyn Target>;

/// Kinds of files; the grammars come beside them.
const FILES: &[(&str, Maker)] = &[
    ("journal", || Box::new(files::Journal::new())),
    ("requests", || Box::new(scene::Requests::new())),
    ("reports", || Box::new(files::Reports::new())),
    ("orders", || Box::new(files::Orders::new())),
    ("memory", || Box::new(files::Memory::new())),
];

/// Numbers from a seed.
pub struct Dice(pub u64);

impl Dice {
    /// Below `n`; 0 when there is nothing below.
    pub fn roll(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }

    /// A place between two characters.
    pub fn cut(&mut self, text: &str) -> usize {
        let mut at = self.roll(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}

/// A name and what makes its inputs.
fn target(name: &str) -> Option<Box<dyn Target>> {
    let file = FILES.iter().find(|(n, _)| *n == name);
    let grammar = texts::GRAMMARS.iter().find(|g| g.name == name);
    let file = file.map(|(_, make)| make());
    file.or_else(|| Some(Box::new(texts::Texts::new(grammar?))))
}

fn names() -> Vec<&'static str> {
    let files = FILES.iter().map(|(name, _)| *name);
    files
        .chain(texts::GRAMMARS.iter().map(|g| g.name))
        .collect()
}

/// Leaves the input where a person finds it; gives the directory.
fn keep(name: &str, seed: u64, number: u64, target: &dyn Target) -> PathBuf {
    let dir = PathBuf::from(format!("target/fuzz/{name}-{seed}-{number}"));
    let made = std::fs::create_dir_all(&dir);
    for (file, bytes) in target.files() {
        let written = made
            .as_ref()
            .map(|()| std::fs::write(dir.join(&file), &bytes));
        if !matches!(written, Ok(Ok(()))) {
            println!("{file}: {:?}", String::from_utf8_lossy(&bytes));
        }
    }
    dir
}

fn fuzz(name: &str, seconds: u64, seed: u64) -> bool {
    let Some(mut target) = target(name) else {
        return false;
    };
    let mut dice = Dice(seed | 1);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut tried, mut worst) = (0u64, Cost::default());
    meter::watch(format!("{name}: seed {seed}"));
    while Instant::now() < end {
        tried += 1;
        meter::trying(tried);
        target.make(&mut dice);
        let meter = Meter::start();
        let ran = catch_unwind(AssertUnwindSafe(|| target.run()));
        let cost = meter.stop();
        worst = worst.worst(cost);
        let panics = ran.is_err().then(|| "panics".to_owned());
        if let Some(why) = panics.or_else(|| cost.objection()) {
            let kept = keep(name, seed, tried, &*target);
            println!(
                "{name}: seed {seed} input {tried} {why}: {}",
                kept.display()
            );
            return false;
        }
    }
    let (us, kb) = (worst.cpu.as_micros(), worst.bytes >> 10);
    println!("{name}: {tried} inputs in {seconds} s, seed {seed}, at most {us} us and {kb} KB");
    true
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let number = |at: usize| words.get(at).and_then(|w| w.parse::<u64>().ok());
    let name = words.first().map_or("all", String::as_str);
    let (seconds, seed) = (number(1).unwrap_or(60), number(2).unwrap_or(1));
    let mut chosen = names();
    chosen.retain(|n| name == "all" || *n == name);
    if chosen.is_empty() {
        eprintln!(
            "fuzz: no target {name}; there are all {}",
            names().join(" ")
        );
        return ExitCode::from(2);
    }
    let each = seconds.div_ceil(chosen.len() as u64);
    let fine = chosen.iter().all(|name| fuzz(name, each, seed));
    ExitCode::from(u8::from(!fine))
}
