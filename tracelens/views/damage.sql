CREATE VIEW main.damage AS
SELECT i.path, d.reason, d.count, d.first_offset
FROM raw.damage AS d
JOIN raw.input AS i USING (input);
COMMENT ON VIEW main.damage IS 'What could not be used or had to be repaired, counted.';
COMMENT ON COLUMN main.damage.path IS 'File.';
COMMENT ON COLUMN main.damage.reason IS 'What was wrong.';
COMMENT ON COLUMN main.damage.count IS 'How many events or rows.';
COMMENT ON COLUMN main.damage.first_offset IS 'Byte offset (or row) of the first one; NULL when it has none.';
