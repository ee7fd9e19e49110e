//! Where jobs are placed: packing, spreading, exclusive use, sections, gangs.

use super::{Cluster, job};

#[test]
fn jobs_start_in_order_where_slots_are_free() {
    let mut c = Cluster::equal(2, 2);
    let ids: Vec<u32> = (0..5).map(|_| c.submit(job(1))).collect();
    assert_eq!(c.pass(), ids[..4]);
    assert_eq!(c.why(ids[4]), "no free job slots: 2 hosts");
    c.end(ids[0]);
    assert_eq!(c.pass(), ids[4..]);
}
