-- Requests for consent. `body` is the whole request but for what may be shown of the call, which is in
-- `shown`, sealed. `live` is the fingerprint of the call as long as the request says something about it.
CREATE TABLE approvals (
  tenant      TEXT NOT NULL,
  id          TEXT NOT NULL,
  principal   TEXT NOT NULL,
  state       TEXT NOT NULL,
  live        TEXT,
  revision    INTEGER NOT NULL,
  change      INTEGER NOT NULL UNIQUE,
  created_at  TEXT NOT NULL,
  expires_at  TEXT NOT NULL,
  body        TEXT NOT NULL,
  shown       BLOB,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

-- Who has had a key in hand beside its holder.
ALTER TABLE keys ADD COLUMN makers TEXT NOT NULL DEFAULT '[]';

CREATE UNIQUE INDEX approvals_live ON approvals (tenant, live) WHERE live IS NOT NULL;
CREATE INDEX approvals_overdue ON approvals (expires_at) WHERE live IS NOT NULL;
CREATE INDEX approvals_pending ON approvals (tenant, principal) WHERE state = 'pending';
CREATE INDEX approvals_by_tenant ON approvals (tenant, created_at);
CREATE INDEX approvals_by_creation ON approvals (created_at);

-- One row: the key that fingerprints are made with, sealed where there is a key for that, and the
-- last change that was given out.
CREATE TABLE approval_state (
  id     INTEGER PRIMARY KEY CHECK (id = 1),
  key    BLOB,
  change INTEGER NOT NULL
) STRICT;

INSERT INTO approval_state (id, change) VALUES (1, 0);

-- Who has been told of changes, and up to which.
CREATE TABLE approval_readers (
  reader TEXT PRIMARY KEY,
  change INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
