-- Credentials. `sealed` holds the values, encrypted and authenticated together with everything else
-- in the row but the two moments. `principal` is NULL for a tenant's own. `kind` and `audiences` are
-- JSON.
CREATE TABLE credentials (
  id         TEXT NOT NULL PRIMARY KEY,
  tenant     TEXT NOT NULL,
  principal  TEXT,
  name       TEXT NOT NULL,
  kind       TEXT NOT NULL,
  audiences  TEXT NOT NULL,
  created_at TEXT NOT NULL,
  rotated_at TEXT NOT NULL,
  expires_at TEXT,
  revision   INTEGER NOT NULL CHECK (revision > 0),
  sealed     BLOB NOT NULL
) STRICT;

-- For SQLite no two NULLs are equal, but a tenant has one credential of a name.
CREATE UNIQUE INDEX credentials_by_owner ON credentials (tenant, ifnull(principal, ''), name);
