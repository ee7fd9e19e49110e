//! When two specifications are equal: each field is.
//!
//! Not derived, because empty texts must not reach `memcmp`: they have no memory, and on processors
//! with AVX-512 the comparison of zero bytes at such a pointer takes 0.1 us (a masked load that
//! faults). Most texts of a specification are empty, and one is compared several times per job.

use super::{Hooks, RerunSettings, Spec};

/// Lists each field once: if one is missing, it does not compile.
macro_rules! equal_by_field {
    ($type:ident, texts: $($text:ident)*, others: $($other:ident)*) => {
        impl PartialEq for $type {
            fn eq(&self, other: &$type) -> bool {
                let $type { $($text,)* $($other,)* } = self;
                true $(&& *$other == other.$other)* $(&& same_text($text, &other.$text))*
            }
        }
    };
}

fn same_text(a: &str, b: &str) -> bool {
    a.len() == b.len() && (a.is_empty() || a == b)
}

equal_by_field!(Spec,
    texts: user queue project app user_group job_group res_req hosts run_on cpu_on depend cwd env
        script shell stdin stdin_blob params stdout stderr notify sub_host description,
    others: uid min max exclusive rerunnable priority limits begin deadline start_by end_orphan
        orphan cwd_create umask stdout_over stderr_over no_report hooks mail files again warn launch
        container session chkpnt slurm pbs unseen);

equal_by_field!(Hooks, texts: pre post, others:);

equal_by_field!(RerunSettings, texts: exits, others: retries);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_are_those_that_are_written_alike() {
        let base = serde_json::to_value(Spec::default()).unwrap();
        let spec = |field: &str, value: serde_json::Value| -> Spec {
            let mut json = base.clone();
            json[field] = value;
            serde_json::from_value(json).unwrap()
        };
        let changed = [
            spec("user", "ab".into()),
            spec("user", "ba".into()),
            spec("res_req", "ab".into()),
            spec("description", "ab".into()),
            spec("umask", 7.into()),
            spec("rerunnable", true.into()),
            spec("hooks", serde_json::json!({"pre": "ab"})),
            spec("hooks", serde_json::json!({"pre": "ba"})),
            spec("again", serde_json::json!({"exits": "1"})),
            spec("again", serde_json::json!({"retries": 1})),
            Spec::default(),
        ];
        for (n, a) in changed.iter().enumerate() {
            for (m, b) in changed.iter().enumerate() {
                assert_eq!(a == b, n == m, "{a:?} {b:?}");
            }
        }
    }
}
