-- The chain: SHA-256 over every other column of the row and the hash of the event before it in its
-- tenant's log. NULL in rows of older schemas until the next open, which fills them in.
ALTER TABLE events ADD COLUMN hash BLOB;

-- Empty in a file that has been opened since.
CREATE INDEX events_unchained ON events (position) WHERE hash IS NULL;

-- Signed statements of where a tenant's chain stood, themselves a chain per tenant.
CREATE TABLE checkpoints (
  tenant     TEXT NOT NULL,
  number     INTEGER NOT NULL CHECK (number > 0),
  kind       TEXT NOT NULL,
  position   INTEGER NOT NULL CHECK (position > 0),
  hash       BLOB NOT NULL CHECK (length(hash) = 32),
  signed_at  TEXT NOT NULL,
  public_key BLOB NOT NULL CHECK (length(public_key) = 32),
  prev       BLOB NOT NULL CHECK (length(prev) = 32),
  signature  BLOB NOT NULL CHECK (length(signature) = 64),
  PRIMARY KEY (tenant, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX checkpoints_by_position ON checkpoints (tenant, position);

-- How far those who read the whole log have come: forwarders and anchors.
CREATE TABLE cursors (
  name          TEXT NOT NULL PRIMARY KEY,
  position      INTEGER NOT NULL CHECK (position >= 0),
  moved_at      TEXT,
  failing_since TEXT,
  failures      INTEGER NOT NULL DEFAULT 0,
  problem       TEXT
) STRICT, WITHOUT ROWID;
