-- Answers that were taken back, and comments on items.
SELECT 1;
