-- Rises by one with every change of a pin, in the same transaction.
INSERT INTO meta (name, value) VALUES ('pins_epoch', 0);

-- Pins of the tools of upstreams: the form that was approved, and the newest that differs from it and
-- was not. A digest is the SHA-256 of the document beside it. `approved_by` is NULL for a form that
-- was trusted because it was the first one.
CREATE TABLE pins (
  source          TEXT NOT NULL,
  tool            TEXT NOT NULL,
  approved_digest BLOB CHECK (length(approved_digest) = 32),
  approved        TEXT,
  approved_at     TEXT,
  approved_by     TEXT,
  seen_digest     BLOB CHECK (length(seen_digest) = 32),
  seen            TEXT,
  seen_at         TEXT,
  PRIMARY KEY (source, tool),
  CHECK (approved_digest IS NOT NULL OR seen_digest IS NOT NULL)
) STRICT;
