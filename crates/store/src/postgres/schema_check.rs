//! Compares the tables of the database with those that this program has made.
//!
//! Invariant (I-18): a trigger, a rule or a policy could discard events without an error, so a
//! schema that differs is refused when a store is opened, and noticed while it is open.

use std::collections::BTreeSet;

use deadpool_postgres::GenericClient;

use super::{
    connect::MIGRATIONS,
    failure::Failure,
    row::{one, rows},
};

/// The output of [`OBJECTS`] for the tables of this program, in order.
const EXPECTED: &str = include_str!("schema/objects.txt");

/// The kinds of objects that later migrations must not change: servers of both versions run during
/// an upgrade.
const FIXED: [&str; 7] =
    ["table ", "child ", "partition ", "trigger ", "rule ", "policy ", "function "];

/// Describes the tables `$1` of the search path, one line per object. Left out are objects that
/// decide only about speed, and other tables.
const OBJECTS: &str = "\
WITH own AS (
  SELECT c.oid, n.name, c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity
  FROM unnest($1::text[]) AS n (name) JOIN pg_class c ON c.oid = to_regclass(quote_ident(n.name))
), children AS (
  SELECT own.name AS parent, own.relkind = 'p' AS is_partition, c.*
  FROM own JOIN pg_inherits i ON i.inhparent = own.oid JOIN pg_class c ON c.oid = i.inhrelid
), watched AS (
  SELECT oid, name FROM own UNION ALL SELECT oid, relname FROM children
)
SELECT concat_ws(' ', 'table', name, 'kind', relkind, relpersistence,
                 CASE WHEN relrowsecurity OR relforcerowsecurity THEN 'row security' END) FROM own
UNION SELECT concat_ws(' ', 'partition of', parent, 'kind', relkind, relpersistence,
                       CASE WHEN relrowsecurity OR relforcerowsecurity THEN 'row security' END)
  FROM children WHERE is_partition
UNION SELECT concat_ws(' ', 'child', relname, 'of', parent) FROM children WHERE NOT is_partition
UNION SELECT concat_ws(' ', 'column', own.name || '.' || a.attname,
                       format_type(a.atttypid, a.atttypmod),
                       CASE WHEN a.attnotnull THEN 'not null' END,
                       CASE WHEN l.collname <> 'default' THEN 'collate ' || l.collname END,
                       CASE WHEN a.attidentity <> '' THEN 'identity ' || a.attidentity::text END,
                       CASE WHEN a.attgenerated <> '' THEN 'generated ' || a.attgenerated::text END,
                       'default ' || pg_get_expr(d.adbin, d.adrelid, true))
  FROM own JOIN pg_attribute a ON a.attrelid = own.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_collation l ON l.oid = a.attcollation
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
UNION SELECT concat_ws(' ', 'constraint', own.name || '.' || c.conname,
                       pg_get_constraintdef(c.oid, true))
  FROM own JOIN pg_constraint c ON c.conrelid = own.oid AND c.contype IN ('c', 'p', 'u', 'x', 'f')
UNION SELECT concat_ws(' ', 'index', own.name || '.' || i.relname, pg_get_indexdef(i.oid, 0, true))
  FROM own JOIN pg_index x ON x.indrelid = own.oid AND x.indisunique
  JOIN pg_class i ON i.oid = x.indexrelid
UNION SELECT concat_ws(' ', 'trigger', w.name || '.' || t.tgname,
                       CASE WHEN t.tgenabled <> 'O' THEN 'enabled ' || t.tgenabled::text END,
                       pg_get_triggerdef(t.oid, true))
  FROM watched w JOIN pg_trigger t ON t.tgrelid = w.oid AND NOT t.tgisinternal
UNION SELECT concat_ws(' ', 'rule', w.name || '.' || r.rulename)
  FROM watched w JOIN pg_rewrite r ON r.ev_class = w.oid
UNION SELECT concat_ws(' ', 'policy', w.name || '.' || p.polname)
  FROM watched w JOIN pg_policy p ON p.polrelid = w.oid
UNION SELECT concat_ws(' ', 'function', p.proname, l.lanname, p.prosecdef::text, btrim(p.prosrc))
  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
  WHERE p.oid = to_regprocedure('announce_change()')";

/// Requires the tables of this program.
pub(super) async fn run(client: &impl GenericClient) -> Result<(), Failure> {
    let objects = rows(client, OBJECTS, &[&tables()]).await?;
    let sql = "SELECT coalesce(max(version), 0) FROM schema_version";
    let version: i32 = one(client, sql, &[]).await?.try_get(0)?;
    let is_newer = usize::try_from(version).is_ok_and(|version| version > MIGRATIONS.len());
    let counts = |line: &str| !is_newer || FIXED.iter().any(|kind| line.starts_with(kind));
    let expected: BTreeSet<&str> = EXPECTED.lines().filter(|line| counts(line)).collect();
    let mut found = BTreeSet::new();
    for row in &objects {
        found.insert(row.try_get::<_, &str>(0)?);
    }
    found.retain(|line| counts(line));
    let problem = if let Some(line) = found.difference(&expected).next() {
        format!("the {line} is not one of this program")
    } else if let Some(line) = expected.difference(&found).next() {
        format!("the {line} is missing")
    } else {
        return Ok(());
    };
    Err(Failure::corrupt(format!(
        "its schema was changed: {problem}; all writes are refused until the schema is restored"
    )))
}

/// The names of the tables of this program.
fn tables() -> Vec<&'static str> {
    let tables = EXPECTED.lines().filter_map(|line| line.strip_prefix("table "));
    tables.filter_map(|rest| rest.split(' ').next()).collect()
}

#[cfg(test)]
mod tests {
    use toolcrib_testkit::postgres;

    use super::super::{connect, partitions};
    use super::*;
    use crate::Options;

    /// Writes the description of a new database next to the build when it differs, for comparison.
    #[tokio::test]
    async fn the_expected_objects_are_those_that_the_migrations_make() {
        let Some(url) = postgres::database() else { return };
        let place = connect::place(&url, &Options::default()).unwrap();
        let mut client = connect::pool(&place).unwrap().get().await.unwrap();
        connect::migrate(&mut client).await.unwrap();
        partitions::ensure(&mut client).await.unwrap();
        let sql = "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'p') \
                   AND relnamespace = 'public'::regnamespace AND NOT relispartition";
        let tables: Vec<String> =
            rows(&client, sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        let found = rows(&client, OBJECTS, &[&tables]).await.unwrap();
        let found: BTreeSet<String> = found.iter().map(|row| row.get(0)).collect();
        let text = found.into_iter().collect::<Vec<_>>().join("\n") + "\n";
        if text != EXPECTED {
            let place = std::env::temp_dir().join("objects.txt");
            std::fs::write(&place, text).unwrap();
            panic!("src/postgres/schema/objects.txt differs from {}", place.display());
        }
    }
}
