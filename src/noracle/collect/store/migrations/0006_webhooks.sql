-- Imports that can be undone, and calls to other services.
SELECT 1;
