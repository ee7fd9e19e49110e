//! The policies that `--policy` names, each as the cb.yaml that it stands for: one virtual host,
//! one queue. Owns the names and the text; the loader of every cluster reads it.

/// The names, with what each does.
pub const POLICIES: &[(&str, &str)] = &[
    (
        "fcfs",
        "first come, first served: the first job blocks the others",
    ),
    ("easy", "backfill behind the reservation of the first job"),
    ("sjbf", "as easy, the shortest candidate first"),
    (
        "conservative",
        "backfill behind the reservations of all jobs",
    ),
];

/// The cb.yaml of a policy on one host of `procs` slots.
///
/// # Errors
/// No policy of this name; names those there are.
pub fn config(policy: &str, procs: u32) -> Result<String, String> {
    let lines = match policy {
        "fcfs" => "  strict: yes\n",
        "easy" => "  backfill: 1\n",
        "sjbf" => "  backfill: 1\n  backfill_order: shortest\n",
        "conservative" => "  backfill: all\n",
        _ => {
            let known: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "no policy {policy:?}: there are {}; anything else is said with --config",
                known.join(", ")
            ));
        }
    };
    Ok(format!(
        "cluster:\n  name: sim\n  administrators: [root]\nhosts:\n- {{name: sim, slots: {procs}}}\n\
         queues:\n- name: normal\n{lines}"
    ))
}
