//! One test binary for everything outside the library: it links once, and fails when a file of
//! this directory was forgotten here.

#![allow(clippy::disallowed_methods)] // tests touch files and clocks
#![allow(unreachable_pub)] // nothing uses a test from outside

mod accounting;
mod apps;
mod bad_files;
mod bad_input;
mod claunch;
mod claunch_hosts;
mod cluster;
mod commands;
mod completion;
mod containers;
mod cpu_binding;
mod cron;
mod cview;
mod data;
mod dev_cluster;
mod documents;
mod drmaa;
mod dry_run;
mod events;
mod executor;
mod executor_bed;
mod expectations;
mod failed_starts;
mod faults_calls;
mod faults_disk;
mod faults_flips;
mod faults_leader;
mod faults_share;
mod golden;
mod gpu_sensor;
mod hanging_programs;
mod hanging_share;
mod health;
mod health_restore;
mod health_start;
mod hooks;
mod hooks_checkpoints;
mod hooks_controls;
mod hooks_esub;
mod host_changes;
mod install;
mod interactive;
mod interactive_x11;
mod job_devices;
mod job_ends;
mod job_groups;
mod job_tmpdir;
mod languages;
mod languages_programs;
mod launch;
mod layering;
mod layering_circles;
mod long_waits;
mod lsf_names;
mod lsf_variables;
mod mistakes;
mod notices;
mod past_moments;
mod patience;
mod policies;
mod policies_order;
mod policies_room;
mod policies_watch;
mod portal;
mod portal_files;
mod portal_password;
mod portal_programs;
mod portal_service;
mod real_work;
mod repeated_jobs;
mod roles;
mod security;
mod security_box;
mod security_jobs;
mod security_roles;
mod sensors;
mod service_account;
mod service_manager;
mod settings;
mod shell_bed;
mod shipped_sensors;
mod sim_traces;
mod slurm_names;
mod soak;
mod source;
mod spawner;
mod supervision;
mod supervision_cluster;
mod supervision_faults;
mod suspended_start;
mod takeover;
#[allow(dead_code)] // shared with the benchmarks, which use more of it
mod terminal_bed;
mod test_rules;
mod tidy;
mod unit_devices;
mod views_agree;
mod why;

#[test]
fn every_file_of_this_directory_is_a_module() {
    let main = source::read("tests/it/main.rs");
    let missing: Vec<String> = source::files("tests/it", &["rs"])
        .iter()
        .filter_map(|f| f.strip_prefix("tests/it/")?.strip_suffix(".rs"))
        .map(|f| {
            f.split('/')
                .next()
                .expect("split gives one part")
                .to_string()
        })
        .filter(|m| m != "main" && !main.contains(&format!("mod {m};")))
        .collect();
    assert!(missing.is_empty(), "tests/it/main.rs lacks: {missing:?}");
}
