//! The policies that `--policy` names, each as a cb.yaml with one virtual host and one queue. Owns
//! the names and the text; the normal loader reads it.

/// First come, first served; backfill that does not delay the first job; the same with the shortest
/// candidate first; backfill that delays no waiting job.
const POLICIES: [&str; 4] = ["fcfs", "easy", "sjbf", "conservative"];

/// The cb.yaml of a policy on one host of `procs` slots.
///
/// # Errors
/// There is no policy with this name; the message names the existing ones.
pub fn config(policy: &str, procs: u32) -> Result<String, String> {
    let lines = match policy {
        "fcfs" => "  strict: yes\n",
        "easy" => "  backfill: 1\n",
        "sjbf" => "  backfill: 1\n  backfill_order: shortest\n",
        "conservative" => "  backfill: all\n",
        _ => {
            return Err(format!(
                "there is no policy {policy:?}: use {}, or --config for other settings",
                POLICIES.join(", ")
            ));
        }
    };
    Ok(format!(
        "cluster:\n  name: sim\n  administrators: [root]\nhosts:\n- {{name: sim, slots: {procs}}}\n\
         queues:\n- name: normal\n{lines}"
    ))
}
