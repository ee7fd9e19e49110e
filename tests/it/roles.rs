//! What docs/security.md says of roles is what the code does: its table is printed from the one
//! that every request is held against (`turn::tests::roles` holds the answers against it).

use corral::intake::roles;

const BEGIN: &str =
    "<!-- roles: printed by intake::roles, held against it by tests/it/roles.rs -->\n";
const END: &str = "<!-- end of roles -->\n";

#[test]
fn the_table_in_the_document_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/security.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the mark before the table");
    let (table, after) = rest.split_once(END).expect("the mark behind the table");
    let printed = roles::printed();
    if std::env::var_os("CB_PRINT_ROLES").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{printed}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(
        table, printed,
        "run this test with CB_PRINT_ROLES=1 to print the table anew"
    );
}
