CREATE VIEW main.input AS
SELECT input, path, format, sha256, bytes, producer, events_read, truncated, base_ns, started_at, resolution_ns
FROM raw.input;
COMMENT ON VIEW main.input IS 'Files that were read.';
COMMENT ON COLUMN main.input.input IS 'Number of the file within this run.';
COMMENT ON COLUMN main.input.path IS 'Path as given.';
COMMENT ON COLUMN main.input.format IS 'Format recognised from the content: kineto, nsys-sqlite, nsys-parquet, nsys-rep.';
COMMENT ON COLUMN main.input.sha256 IS 'SHA-256 of the content.';
COMMENT ON COLUMN main.input.bytes IS 'Size in bytes.';
COMMENT ON COLUMN main.input.producer IS 'What wrote the file, as far as it says.';
COMMENT ON COLUMN main.input.events_read IS 'Events or rows read, dropped ones included.';
COMMENT ON COLUMN main.input.truncated IS 'Whether the file ends early.';
COMMENT ON COLUMN main.input.base_ns IS 'Nanoseconds to add to times of this file to compare files.';
COMMENT ON COLUMN main.input.started_at IS 'Start of the capture, ISO 8601, where the file says it.';
COMMENT ON COLUMN main.input.resolution_ns IS 'Resolution of timestamps: 1, or 1000 for whole-microsecond files.';
