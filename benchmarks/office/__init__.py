"""Ten small servers of an office, and 200 tasks for them and five published servers, all written for this benchmark."""
