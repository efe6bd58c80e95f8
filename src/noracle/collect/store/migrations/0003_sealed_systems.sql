-- Systems that were sealed in time, and the head at closing.
SELECT 1;
