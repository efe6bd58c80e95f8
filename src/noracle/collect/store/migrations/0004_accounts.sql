-- Passwords that can be changed, devices that are known, members who left.
SELECT 1;
