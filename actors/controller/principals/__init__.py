"""What the metadata holds about principals: access rules, credentials, tokens, quotas."""
